/**
 * Invitations to a tenant: sent by mail, accepted with the mailed link or signed in. The
 * memberships are `tenant-config`'s.
 */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { Password, TenantRef, TokenResponse } from './auth.ts';
import { action, internal, type Access } from './contract.ts';
import { TenantRole } from './roles.ts';
import { listing } from './envelopes.ts';
import {
  CreatedAt,
  described,
  DescribedObject,
  Email,
  MailedToken,
  StrictObject,
  Timestamp,
  TitledObject,
  UserId,
  Uuid,
} from './fields.ts';

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
const invitationPath = { invitation_id: described(Uuid, "The invitation's id") };

const Invitation = TitledObject('Invitation', 'A membership that is offered', {
  id: described(Uuid, 'Id of the invitation'),
  tenant: DescribedObject('Who invites', {
    id: described(Uuid, "The tenant's id"),
    name: Type.String({ description: 'Its name' }),
  }),
  roles: Type.Array(TenantRole, { description: 'Roles that a member will have' }),
  created_at: CreatedAt,
  expires_at: described(Timestamp, 'Expiry of the invitation'),
});
/** The link has been accepted, and is no sign-in: the person has a way to sign in already. */
const SignInRequired = TitledObject(
  'SignInRequired',
  'The invitation is accepted; the person signs in as usual',
  {
    sign_in_required: Type.Literal(true, { description: 'The link alone signs no one in' }),
    email: Email,
    tenant: TenantRef,
  },
);

export const invitationContracts = {
  'auth.invitations.accept': action({
    summary:
      'Accept the invitation of a mailed link; signs in where it sets the password of the account',
    rest: 'POST /auth/invitations/accept',
    access: open,
    leadsTo: 'own_sign_in',
    networkLimited: 'failures',
    body: TitledObject('InvitationAcceptance', 'Accepting by the mailed link', {
      token: MailedToken(500),
      password: Type.Optional(
        described(Password, 'For an account that has no way to sign in yet: its password'),
      ),
    }),
    result: Type.Union([TokenResponse, SignInRequired]),
    response: 'token',
  }),
  'auth.invitations.list': listing({
    summary: 'My invitations',
    rest: 'GET /auth/invitations',
    access: signedIn,
    keyScope: null,
    items: Invitation,
  }),
  'auth.invitations.join': action({
    summary: 'Accept one of my invitations',
    rest: 'POST /auth/invitations/{invitation_id}/accept',
    access: signedIn,
    leadsTo: 'own_sign_in',
    keyScope: null,
    path: invitationPath,
    result: TenantRef,
  }),
  'auth.invitations.decline': action({
    summary: 'Decline one of my invitations',
    rest: 'POST /auth/invitations/{invitation_id}/decline',
    access: signedIn,
    leadsTo: 'removal',
    keyScope: null,
    path: invitationPath,
  }),
  'auth.invitations.send': internal({
    summary: 'Mail a link to the invited person; the link of an earlier mail ends',
    body: StrictObject({
      tenant_id: Uuid,
      tenant_name: Type.String(),
      user_id: Uuid,
      actor: AuditFacts.properties.actor,
    }),
  }),
  'auth.invitations.end': internal({
    summary: 'End the invitation and the API keys that a removed member has in the tenant',
    path: { tenant_id: Uuid, user_id: UserId },
  }),
} as const;

/** Invitations to a tenant: sent by mail, accepted with the mailed link or signed in. The memberships are `tenant-config`'s. */
import { Type } from 'typebox';
import { AuditFacts } from './audit.ts';
import { Password, TenantRef, TokenResponse } from './auth.ts';
import { action, Page, page, tenantRoles, type Access } from './contract.ts';
import { Email, strict, Timestamp, Uuid } from './fields.ts';

const open: Access = { level: 'public' };
const signedIn: Access = { level: 'authenticated' };
const invitationPath = { invitation_id: Uuid };

const Invitation = Type.Object(
  {
    id: Uuid,
    tenant: Type.Object({ id: Uuid, name: Type.String() }, strict),
    roles: Type.Array(Type.Enum(tenantRoles)),
    created_at: Timestamp,
    expires_at: Timestamp,
  },
  strict,
);
/** The link has been accepted, and is no sign-in: the person has a way to sign in already. */
const SignInRequired = Type.Object(
  { sign_in_required: Type.Literal(true), email: Email, tenant: TenantRef },
  strict,
);

export const invitationContracts = {
  'auth.invitations.accept': action({
    summary:
      'Accept the invitation of a mailed link; signs in where it sets the password of the account',
    rest: 'POST /auth/invitations/accept',
    access: open,
    networkLimited: 'failures',
    body: Type.Object(
      {
        token: Type.String({ minLength: 1, maxLength: 500 }),
        password: Type.Optional(Password),
      },
      strict,
    ),
    result: Type.Union([TokenResponse, SignInRequired]),
    response: 'token',
  }),
  'auth.invitations.list': action({
    summary: 'My invitations',
    rest: 'GET /auth/invitations',
    access: signedIn,
    keyScope: null,
    query: page,
    result: Page(Invitation),
    response: 'list',
  }),
  'auth.invitations.join': action({
    summary: 'Accept one of my invitations',
    rest: 'POST /auth/invitations/{invitation_id}/accept',
    access: signedIn,
    keyScope: null,
    path: invitationPath,
    result: TenantRef,
  }),
  'auth.invitations.decline': action({
    summary: 'Decline one of my invitations',
    rest: 'POST /auth/invitations/{invitation_id}/decline',
    access: signedIn,
    keyScope: null,
    path: invitationPath,
    result: Type.Null(),
    response: 'nothing',
  }),
  'auth.invitations.send': action({
    summary: 'Mail a link to whoever is invited; the link of an earlier mail ends',
    access: { level: 'internal' },
    body: Type.Object(
      {
        tenant_id: Uuid,
        tenant_name: Type.String(),
        user_id: Uuid,
        actor: AuditFacts.properties.actor,
      },
      strict,
    ),
    result: Type.Null(),
  }),
  'auth.invitations.end': action({
    summary: 'End the invitation of whoever is no member any more',
    access: { level: 'internal' },
    path: { tenant_id: Uuid, user_id: Uuid },
    result: Type.Null(),
  }),
} as const;

/**
 * Identity providers as platform administrators keep them, and the public question which one serves
 * an address.
 */
import { randomUUID } from 'node:crypto';
import type { EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../../shared/contract-runtime/request.ts';
import type { EventDraft, Work } from '../../../../shared/commits/commit.ts';
import type { ResultOf } from '../../../../shared/contracts/index.ts';
import { pageById } from '../../../../shared/documents/paging.ts';
import { ifFound, invalid, StrataError } from '../../../../shared/errors.ts';
import type { Guard } from '../../../../shared/outgoing/guard.ts';
import { diff } from '../../../../shared/schema/diff.ts';
import { mask } from '../../../../shared/security/vault.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { ssoProviderProblems, type SsoProviderBody } from '../rules/sso-provider.ts';
import { SsoProviderEntity, type SsoProviderRow } from '../../schema.ts';
import { commitByPlatformAdministrator } from '../../stores/by-administrators.ts';
import { endSessionsThrough } from '../../sessions/stores/sessions.ts';
import {
  findProvidersOfAddress,
  findTakenDomain,
  findVerifiedDomains,
  sealClientSecret,
} from '../stores/sso-providers.ts';

type Provider = ResultOf<'auth.sso.providers.get'>;

const viewOf = (row: SsoProviderRow): Provider => ({
  ...row,
  client_secret: mask,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
});

/** What an administrator changed; when the row was written is no change. */
const changesBetween = (before: SsoProviderRow, after: SsoProviderRow) =>
  diff({ ...viewOf(before), updated_at: undefined }, { ...viewOf(after), updated_at: undefined });

const eventAbout = (
  action: string,
  { id, tenant_id: tenantId }: SsoProviderRow,
  payload: unknown,
): EventDraft => ({ action, tenant_id: tenantId, target: id, payload });

const noSuchProvider = (): StrataError => new StrataError('auth_sso_provider_not_found');

async function find(manager: EntityManager, id: string): Promise<SsoProviderRow> {
  const row = await manager.findOneBy(SsoProviderEntity, { id });
  if (!row) throw noSuchProvider();
  return row;
}

/**
 * Throws 422 with all problems. Runs before the transaction: no lock is held while a resolver or
 * a neighbour is waited for.
 */
async function check(body: SsoProviderBody, guard: Guard, request: Request): Promise<void> {
  const problems = ssoProviderProblems(body);
  await guard.checkUrl(body.issuer).catch(({ message }: Error) => {
    problems.push({ path: '/issuer', message });
  });
  const { tenant_id: tenantId = null } = body;
  const tenant =
    tenantId === null ||
    (await ifFound(request.call('tenant-config.tenants.get', { tenant_id: tenantId })));
  if (!tenant) problems.push({ path: '/tenant_id', message: 'there is no such tenant' });
  if (problems.length > 0) throw invalid(problems);
}

async function requireFreeDomains(manager: EntityManager, row: SsoProviderRow): Promise<void> {
  const taken = await findTakenDomain(manager, row);
  if (taken !== undefined)
    throw new StrataError('conflict', `The domain ${taken} belongs to another tenant.`);
}

/**
 * The mask keeps the stored secret for its issuer: whoever may not read a secret must not have it
 * sent to an issuer of theirs.
 */
function storedSecret(
  id: string,
  { client_secret: given, issuer }: SsoProviderBody,
  before: SsoProviderRow | null,
  settings: Settings,
): string {
  if (given !== mask) return sealClientSecret(given, { id, issuer }, settings);
  if (before?.issuer === issuer) return before.client_secret;
  throw invalid([
    {
      path: '/client_secret',
      message: 'is the mask, but no secret is stored for this issuer: give the secret itself',
    },
  ]);
}

const rowOf = (
  id: string,
  body: SsoProviderBody,
  before: SsoProviderRow | null,
  settings: Settings,
): SsoProviderRow => ({
  id,
  name: body.name,
  issuer: body.issuer,
  client_id: body.client_id,
  client_secret: storedSecret(id, body, before, settings),
  tenant_id: body.tenant_id ?? null,
  domains: body.domains ?? [],
  jit_enabled: body.jit_enabled ?? false,
  default_roles: body.default_roles ?? [],
  redirect_uris: body.redirect_uris,
  enabled: body.enabled ?? true,
  created_at: before?.created_at ?? new Date(),
  updated_at: new Date(),
});

export function ssoProviderActions({ db, settings, guard }: AuthParts) {
  return {
    'auth.sso.providers.domains': ({ tenant_id }) => findVerifiedDomains(db.manager, tenant_id),

    async 'auth.sso.providers.list'({ email, ...page }) {
      if (email !== undefined) {
        const serving = await findProvidersOfAddress(db.manager, email);
        return { items: serving.map(({ id, name }) => ({ id, name })), next_cursor: null };
      }
      return pageById(db.manager, SsoProviderEntity, {}, page, viewOf);
    },

    async 'auth.sso.providers.get'({ id }) {
      return viewOf(await find(db.manager, id));
    },

    async 'auth.sso.providers.create'({ body }, request) {
      await check(body, guard, request);
      const result = await commitByPlatformAdministrator(
        db,
        request,
        settings(),
        async (manager) => {
          const row = rowOf(randomUUID(), body, null, settings());
          await requireFreeDomains(manager, row);
          await manager.insert(SsoProviderEntity, row);
          request.checkAnswer(viewOf(row));
          const event = eventAbout('auth.sso_provider_created', row, viewOf(row));
          return { result: row, keys: [], events: [event] };
        },
      );
      return viewOf(result);
    },

    async 'auth.sso.providers.put'({ id, body }, request) {
      await check(body, guard, request);
      const result = await commitByPlatformAdministrator(
        db,
        request,
        settings(),
        async (manager) => {
          const before = await find(manager, id);
          const row = rowOf(id, body, before, settings());
          await requireFreeDomains(manager, row);
          await manager.save(SsoProviderEntity, row);
          request.checkAnswer(viewOf(row));
          // They are good for the tenant that it was of, by the word of the issuer that it had.
          const isMoved = row.tenant_id !== before.tenant_id;
          const endsSessions = !row.enabled || isMoved || row.issuer !== before.issuer;
          // Whoever changes it by mistake stays to change it back.
          const keptId = request.caller.session_id;
          const { keys, ended } = endsSessions
            ? await endSessionsThrough(manager, id, keptId)
            : { keys: [], ended: 0 };
          const payload = {
            changes: changesBetween(before, row),
            secret_replaced: row.client_secret !== before.client_secret,
            sessions_ended: ended,
          };
          // A provider that moves is neither tenant's to tell, since its changes name the other.
          const owner = isMoved ? { ...row, tenant_id: null } : row;
          const event = eventAbout('auth.sso_provider_updated', owner, payload);
          return { result: row, keys, events: [event] };
        },
      );
      return viewOf(result);
    },

    async 'auth.sso.providers.delete'({ id }, request) {
      const remove: Work<boolean> = async (manager) => {
        const row = await manager.findOneBy(SsoProviderEntity, { id });
        // Also of one that an earlier request has deleted, whose commit was lost to it.
        const { keys, ended } = await endSessionsThrough(manager, id, request.caller.session_id);
        if (!row) return { result: false, keys, events: [] };
        await manager.delete(SsoProviderEntity, { id });
        const payload = { name: row.name, issuer: row.issuer, sessions_ended: ended };
        const event = eventAbout('auth.sso_provider_deleted', row, payload);
        return { result: true, keys, events: [event] };
      };
      const isFound = await commitByPlatformAdministrator(db, request, settings(), remove);
      if (!isFound) throw noSuchProvider();
      return null;
    },
  } satisfies Handlers;
}

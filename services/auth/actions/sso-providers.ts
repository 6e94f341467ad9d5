import { randomUUID } from 'node:crypto';
import { MoreThan, type DataSource, type EntityManager } from 'typeorm';
import type { Handlers, Request } from '../../../shared/cluster/request.ts';
import { authScope } from '../../../shared/contracts/revision-scopes.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { codeOf, invalid, StrataError } from '../../../shared/errors.ts';
import type { Guard } from '../../../shared/outgoing/guard.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { diff } from '../../../shared/schema/diff.ts';
import { createVault, mask } from '../../../shared/security/vault.ts';
import { decodeCursor, defaultLimit, pageOf } from '../../../shared/documents/paging.ts';
import type { Settings } from '../../../shared/settings.ts';
import type { OidcClient } from '../oidc.ts';
import { domainOf } from '../rules/sso-account.ts';
import { ssoProviderProblems, type SsoProviderBody } from '../rules/sso-provider.ts';
import { SsoProviderEntity, type SsoProviderRow } from '../schema.ts';

type Provider = ResultOf<'auth.sso.providers.get'>;

const shown = ({ created_at: created, updated_at: updated, ...row }: SsoProviderRow): Provider => ({
  ...row,
  default_roles: row.default_roles as Provider['default_roles'],
  client_secret: mask,
  created_at: created.toISOString(),
  updated_at: updated.toISOString(),
});
const context = (id: string): string => `sso provider ${id}`;
const vaultOf = (settings: Settings) => createVault(settings, 'sso client secret');

/** The provider with its secret open. */
export const oidcClientOf = (
  { id, issuer, client_id, client_secret: sealed }: SsoProviderRow,
  settings: Settings,
): OidcClient => ({
  id,
  issuer,
  client_id,
  client_secret: vaultOf(settings).open(sealed, context(id)),
});

/** Enabled providers of the address's domain, the oldest first. */
export const providersFor = (db: DataSource, email: string): Promise<SsoProviderRow[]> =>
  db.manager
    .createQueryBuilder(SsoProviderEntity, 'p')
    .where('p.enabled AND p.domains @> CAST(:domains AS jsonb)', {
      domains: JSON.stringify([{ domain: domainOf(email) }]),
    })
    .orderBy({ 'p.created_at': 'ASC', 'p.id': 'ASC' })
    .getMany();

export function ssoProviderActions(db: DataSource, settings: () => Settings, guard: Guard) {
  const find = async (manager: EntityManager, id: string): Promise<SsoProviderRow> => {
    const row = await manager.findOneBy(SsoProviderEntity, { id });
    if (!row) throw new StrataError('auth_sso_provider_not_found');
    return row;
  };

  /** Before the transaction: no lock is held while a resolver or a neighbour is waited for. */
  async function check(body: SsoProviderBody, request: Request): Promise<void> {
    const problems = ssoProviderProblems(body);
    await guard.checkUrl(body.issuer).catch(({ message }: Error) => {
      problems.push({ path: '/issuer', message });
    });
    if (typeof body.tenant_id === 'string') {
      await request
        .call('tenant-config.tenants.get', { tenant_id: body.tenant_id })
        .catch((error: unknown) => {
          if (codeOf(error) !== 'not_found') throw error;
          problems.push({ path: '/tenant_id', message: 'there is no such tenant' });
        });
    }
    if (problems.length > 0) throw invalid(problems);
  }

  async function requireFreeDomains(
    manager: EntityManager,
    { id, tenant_id: tenant, domains }: SsoProviderRow,
  ): Promise<void> {
    const [taken] = await manager.query<{ domain: string }[]>(
      `SELECT d->>'domain' AS domain FROM auth.sso_providers p, jsonb_array_elements(p.domains) d
       WHERE p.id <> $1 AND p.tenant_id IS DISTINCT FROM $2 AND d->>'domain' = ANY($3) LIMIT 1`,
      [id, tenant, domains.map(({ domain }) => domain)],
    );
    if (taken)
      throw new StrataError('conflict', `The domain ${taken.domain} belongs to another tenant.`);
  }

  /** Whoever may not read the secret must not have it sent to an issuer of theirs. */
  function sealed(
    id: string,
    { client_secret: given, issuer }: SsoProviderBody,
    before: SsoProviderRow | null,
  ): string {
    if (given !== mask) return vaultOf(settings()).seal(given, context(id));
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
  ): SsoProviderRow => ({
    id,
    name: body.name,
    issuer: body.issuer,
    client_id: body.client_id,
    client_secret: sealed(id, body, before),
    tenant_id: body.tenant_id ?? null,
    domains: body.domains ?? [],
    jit_enabled: body.jit_enabled ?? false,
    default_roles: body.default_roles ?? [],
    redirect_uris: body.redirect_uris,
    enabled: body.enabled ?? true,
    created_at: before?.created_at ?? new Date(),
    updated_at: new Date(),
  });
  const event = (what: string, { id, tenant_id }: SsoProviderRow, payload: unknown) => ({
    action: `auth.sso_provider_${what}`,
    tenant_id,
    target: id,
    payload,
  });

  return {
    async 'auth.sso.providers.list'({ limit = defaultLimit, cursor, email }) {
      if (email !== undefined)
        return {
          items: (await providersFor(db, email)).map(({ id, name }) => ({ id, name })),
          next_cursor: null,
        };
      const after = decodeCursor(cursor, 'id');
      const rows = await db.manager.find(SsoProviderEntity, {
        where: after === undefined ? {} : { id: MoreThan(after) },
        order: { id: 'ASC' },
        take: limit + 1,
      });
      return pageOf(rows, limit, ({ id }) => id, shown);
    },

    'auth.sso.providers.get': async ({ id }) => shown(await find(db.manager, id)),

    async 'auth.sso.providers.create'({ body }, request) {
      await check(body, request);
      const { result } = await commitChange(db, request, authScope, async (manager) => {
        const row = rowOf(randomUUID(), body, null);
        await requireFreeDomains(manager, row);
        await manager.insert(SsoProviderEntity, row);
        return { result: row, keys: [], events: [event('created', row, shown(row))] };
      });
      return shown(result);
    },

    async 'auth.sso.providers.put'({ id, body }, request) {
      await check(body, request);
      const { result } = await commitChange(db, request, authScope, async (manager) => {
        const before = await find(manager, id);
        const row = rowOf(id, body, before);
        await requireFreeDomains(manager, row);
        await manager.save(SsoProviderEntity, row);
        const changes = diff(
          { ...shown(before), updated_at: undefined },
          { ...shown(row), updated_at: undefined },
        );
        return {
          result: row,
          keys: [],
          events: [
            event('updated', row, {
              changes,
              secret_replaced: row.client_secret !== before.client_secret,
            }),
          ],
        };
      });
      return shown(result);
    },

    async 'auth.sso.providers.delete'({ id }, request) {
      await commitChange(db, request, authScope, async (manager) => {
        const row = await find(manager, id);
        await manager.delete(SsoProviderEntity, { id });
        return {
          result: undefined,
          keys: [],
          events: [event('deleted', row, { name: row.name, issuer: row.issuer })],
        };
      });
      return null;
    },
  } satisfies Handlers;
}

/**
 * What was effective, kept by whoever asks: random writes of a platform and of one of its tenants,
 * on every layer and on bounds, with the answers of each moment beside them. What `as_of` says of
 * these moments later has to be the same.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from '@jest/globals';
import type { Answer, Client } from './strata.ts';
import { randomFrom, type Random } from './values-of-schema.ts';

export interface Writers {
  readonly tenantId: string;
  /** Each of them may be another gateway. */
  readonly platform: readonly Client[];
  readonly tenant: readonly Client[];
}

interface Moment {
  /** The scope's own revision, and whose it is. */
  readonly scope: 'platform' | 'tenant';
  readonly revision: number;
  /** By query: what GET effective said right after the write. */
  readonly effective: Readonly<Record<string, Answer['body']>>;
}

const questions = [
  'explain=true',
  'explain=true&agent_type=scaler',
  'explain=true&service_id=web',
  'explain=true&agent_type=scaler&service_id=sql',
  'explain=true&service_type=cloud_run',
];

const pick = <T>(from: readonly T[], random: Random): T =>
  from[Math.floor(random() * from.length)]!;
const upTo = (most: number, random: Random): number => Math.floor(random() * (most + 1));

interface Write {
  readonly scope: Moment['scope'];
  readonly method: 'PUT' | 'PATCH' | 'DELETE' | 'POST';
  readonly path: string;
  readonly body?: unknown;
}

/**
 * Any write of any layer; some are refused, since what they would undo or contradict depends on
 * those before them.
 */
function anyWrite(
  tenantId: string,
  newest: Readonly<Record<Moment['scope'], number>>,
  random: Random,
): Write {
  const key = pick(['band', 'max_concurrent_automations', 'default_cpu'] as const, random);
  const value = {
    band: pick(['low', 'high', 7, null, { deep: [1] }], random),
    max_concurrent_automations: upTo(20, random),
    default_cpu: pick(['1', '2'], random),
  }[key];
  const instances = upTo(6, random);
  const type = pick(['cloud_run', 'cloud_sql'], random);
  const ofType = `/config/service-types/${type}/default`;
  const ofTenant = `/tenants/${tenantId}`;
  const bounds = pick(
    [
      { max_concurrent_automations: { maximum: upTo(20, random) } },
      { band: { enum: ['low', 'high'] } },
      { band: { const: upTo(3, random), service_types: ['cloud_run'] } },
      { max_instances: { minimum: upTo(3, random) }, band: null },
      { automation_enabled: { const: false, mode: pick(['warn', 'enforce'], random) } },
    ],
    random,
  );
  const platform = (write: Omit<Write, 'scope'>): Write => ({ scope: 'platform', ...write });
  const tenant = (write: Omit<Write, 'scope'>): Write => ({ scope: 'tenant', ...write });
  return pick<() => Write>(
    [
      () =>
        platform({
          method: 'PUT',
          path: `/config/global/${key}`,
          // Public ones alone: of what is made private the past is not shown.
          body: { config_value: value, is_public: true },
        }),
      () => platform({ method: 'DELETE', path: `/config/global/${key}` }),
      () =>
        platform({ method: 'PATCH', path: ofType, body: { default_settings: { [key]: value } } }),
      () =>
        platform({
          method: 'PATCH',
          path: ofType,
          body: { scaling_limits: { min_instances: 0, max_instances: 3 + instances } },
        }),
      () => platform({ method: 'PATCH', path: ofType, body: { is_active: random() < 0.7 } }),
      () => platform({ method: 'DELETE', path: ofType }),
      () => platform({ method: 'PUT', path: ofType, body: {} }),
      () => platform({ method: 'PATCH', path: '/config/bounds', body: bounds }),
      () => platform({ method: 'DELETE', path: '/config/bounds' }),
      () =>
        platform({
          method: 'POST',
          path: '/config/rollback',
          body: { revision: 1 + upTo(newest.platform, random) },
        }),
      () => tenant({ method: 'PATCH', path: `${ofTenant}/config/bounds`, body: bounds }),
      () => tenant({ method: 'DELETE', path: `${ofTenant}/config/bounds` }),
      () =>
        tenant({
          method: 'PATCH',
          path: `${ofTenant}/config/risk`,
          body: { service_overrides: { [type]: { [key]: value } } },
        }),
      () =>
        tenant({
          method: 'PATCH',
          path: `${ofTenant}/config/risk`,
          body: { global_settings: { max_concurrent_automations: upTo(20, random) } },
        }),
      () =>
        tenant({
          method: 'PUT',
          path: `${ofTenant}/config/agents/scaler`,
          body: { default_cpu: pick(['1', '2'], random) },
        }),
      () => tenant({ method: 'DELETE', path: `${ofTenant}/config/agents/scaler` }),
      () =>
        tenant({
          method: 'PUT',
          path: `${ofTenant}/services/${pick(['web', 'sql'], random)}`,
          body: { service_type: type, max_instances: instances, automation_enabled: true },
        }),
      () => tenant({ method: 'DELETE', path: `${ofTenant}/services/web` }),
      () =>
        tenant({
          method: 'POST',
          path: `${ofTenant}/config/rollback`,
          body: { revision: 1 + upTo(newest.tenant, random) },
        }),
    ],
    random,
  )();
}

/** The answers, without what only one of the two questions has. */
function shown({ as_of: _asOf, ...answer }: Answer['body']): unknown {
  return answer;
}

async function askAll(client: Client, tenantId: string, asOf = ''): Promise<Moment['effective']> {
  const found = await Promise.all(
    questions.map(async (question) => {
      const path = `/tenants/${tenantId}/config/effective?${question}${asOf}`;
      const { status, body } = await client.get(path);
      return [question, status === 200 ? shown(body) : { status }] as const;
    }),
  );
  return Object.fromEntries(found);
}

/** The times of a scope's revisions, as its history says. */
async function timesOf(client: Client, path: string): Promise<Map<number, string>> {
  const times = new Map<number, string>();
  for (let cursor = ''; ;) {
    const { body } = await client.get(`${path}?limit=200${cursor}`);
    for (const { revision, changed_at: at } of body.items) times.set(revision, at);
    if (body.next_cursor === null) return times;
    cursor = `&cursor=${body.next_cursor}`;
  }
}

/**
 * Makes so many accepted writes, one after the other, and then asks for the moment of each by its
 * time, and by the tenant's revision where it was a write of the tenant. Returns how many moments
 * were compared.
 */
export async function comparePast(
  { tenantId, platform, tenant }: Writers,
  { writes, seed }: { readonly writes: number; readonly seed: number },
): Promise<number> {
  const random = randomFrom(seed);
  const moments: Moment[] = [];
  const newest = { platform: 0, tenant: 1 };
  while (moments.length < writes) {
    const { scope, method, path, body } = anyWrite(tenantId, newest, random);
    const client = pick(scope === 'platform' ? platform : tenant, random);
    const answer = await client.send(method, path, body === undefined ? {} : { body });
    if (answer.status >= 500) throw new Error(`${method} ${path}: ${answer.text}`);
    if (answer.status >= 300) continue;
    const revision = Number(answer.headers.get('x-config-revision'));
    // A write that changes nothing is answered with the revision that it found.
    if (revision <= newest[scope]) continue;
    newest[scope] = revision;
    moments.push({ scope, revision, effective: await askAll(pick(tenant, random), tenantId) });
    // Times have milliseconds: no two writes share one here.
    await delay(2);
  }
  const times = {
    platform: await timesOf(platform[0]!, '/config/history'),
    tenant: await timesOf(tenant[0]!, `/tenants/${tenantId}/config/history`),
  };
  for (const { scope, revision, effective } of moments) {
    const names = [times[scope].get(revision)!, ...(scope === 'tenant' ? [String(revision)] : [])];
    for (const asOf of names) {
      const then = await askAll(pick(tenant, random), tenantId, `&as_of=${asOf}`);
      expect({ scope, revision, asOf, ...then }).toEqual({ scope, revision, asOf, ...effective });
    }
  }
  return moments.length;
}

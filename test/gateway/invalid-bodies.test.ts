/**
 * G6 and G7: bodies that a contract refuses are refused over every route that takes one, and leave
 * nothing behind. INVALID_BODIES makes more, such as the 25,000 of `npm run test:soak`.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Ajv, type ValidateFunction } from 'ajv';
import addFormats from 'ajv-formats';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { TSchema } from 'typebox';
import { restRoutes, type RestRoute } from '../../gateway/http/rest.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { applyMergePatch } from '../../shared/schema/merge-patch.ts';
import { eventually } from '../support/cluster.ts';
import { sendPipelined, type RawAnswer, type RawRequest } from '../support/pipelined.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Client,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';
import { randomFrom, valueOf, type Random } from '../support/values-of-schema.ts';

const total = Number(process.env.INVALID_BODIES ?? 2000);
const lanes = 8;
const faultRates = [0.1, 0.2, 0.3, 0.4, 0.5];

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantFixture;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    LOG_LEVEL: 'error',
    // On a busy machine many requests at once wait for each other.
    REQUEST_TIMEOUT_MS: '60000',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Invalid bodies');
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

// Not the validator of Strata, which is what is tested.
const oracle = new Ajv({ strict: false, discriminator: true });
addFormats.default(oracle);
// Any text, so that what the oracle refuses is wrong elsewhere: which zones there are is the
// runtime's to say.
oracle.addFormat('iana-time-zone', true);

/** What a route is sent: bodies that nothing it may rightly do could accept. */
interface Target {
  readonly method: string;
  readonly path: string;
  readonly token: string | undefined;
  readonly bodyOf: (random: Random) => string;
}

/** Values for the placeholders of paths. */
const named: Readonly<Record<string, () => string>> = {
  tenant_id: () => tenant.id,
  agent_type: () => 'generated',
  service_id: () => 'generated',
  project_id: () => 'generated',
  key: () => 'generated',
  service_type: () => 'generated',
  configuration_name: () => 'default',
};
const pathOf = (path: string): string =>
  path.replaceAll(/\{([a-z_]+)\}/g, (_all, name: string) => named[name]?.() ?? randomUUID());

function refusedValue(schema: TSchema, isValid: (value: unknown) => boolean, random: Random) {
  for (;;) {
    const rate = faultRates[Math.floor(random() * faultRates.length)]!;
    const value = valueOf(schema, random, rate);
    if (!isValid(value)) return value;
  }
}

async function targetOf({ name, contract, rest }: RestRoute): Promise<Target | undefined> {
  const body = contract.params.properties.body as TSchema | undefined;
  if (!body) return undefined;
  const path = pathOf(rest.path);
  const isTenants = contract.access.level === 'tenant' || contract.access.level === 'authenticated';
  const client = isTenants ? tenant.admin : platform;
  const common = { method: rest.method, path, token: client.token };
  const isPatched = rest.method === 'PATCH' && contract.response === 'write';
  if (!isPatched) {
    const isValid = oracle.compile(body);
    return { ...common, bodyOf: (random) => JSON.stringify(refusedValue(body, isValid, random)) };
  }
  return { ...common, bodyOf: await patchesOf(name, path, client) };
}

/** A document to patch. A policy of change that names nothing else leaves the others to be written. */
function firstOf(path: string): object {
  const policy = { keys: ['of_no_document'] };
  if (path === '/config/change-policy') return { platform: policy };
  if (path.endsWith('/change-policy')) return policy;
  if (path.endsWith('services/generated')) return { service_type: 'cloud_run' };
  return path.includes('global') ? { config_value: 1 } : {};
}

/**
 * A PATCH takes any object: what it makes of the document has to be what the document's schema
 * refuses.
 */
async function patchesOf(name: string, path: string, client: Client) {
  const put = contractTable[name.replace(/patch$/, 'put') as keyof typeof contractTable];
  const body = (put as RestRoute['contract']).params.properties.body as TSchema;
  const made = await eventually(async () => {
    const answer = await client.put(path, firstOf(path));
    expect(`${answer.status} ${answer.text}`).toMatch(/^2/);
    return answer;
  });
  const isValidPut: ValidateFunction = oracle.compile(body);
  const { properties = {} } = body as { properties?: object };
  const allowed = new Set(Object.keys(properties));
  const current = Object.fromEntries(
    Object.entries((made.body ?? {}) as object).filter(([member]) => allowed.has(member)),
  );
  return (random: Random): string => {
    for (;;) {
      const patch = refusedValue(body, isValidPut, random);
      const isObject = typeof patch === 'object' && patch !== null && !Array.isArray(patch);
      if (!isObject || !isValidPut(applyMergePatch(current, patch))) return JSON.stringify(patch);
    }
  };
}

/** Everything that could tell of a write, once the audit trail has what was written so far. */
async function traces(): Promise<unknown> {
  // What is written is worked off later: these empty without a request.
  await eventually(async () =>
    expect(
      await database.query(
        `SELECT FROM strata.outbox UNION ALL SELECT FROM audit.mail_notices
         UNION ALL SELECT FROM audit.destination_changes`,
      ),
    ).toEqual([]),
  );
  const tables = await database.query<{ name: string }>(
    `SELECT schemaname || '.' || relname AS name FROM pg_stat_user_tables
     WHERE relname NOT IN ('outbox', 'events', 'leases', 'relay_lease', 'slot_clock', 'write_figures') AND schemaname <> 'public' ORDER BY 1`,
  );
  const counts = await Promise.all(
    tables.map(async ({ name }) => {
      const [row] = await database.query<{ count: string; sum: string }>(
        `SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0)::text AS sum FROM ${name} t`,
      );
      return [name, row];
    }),
  );
  const [events] = await database.query(
    'SELECT count(*) FROM (SELECT event_id FROM strata.outbox UNION SELECT id FROM audit.events) e',
  );
  return { ...Object.fromEntries(counts), events };
}

/** Making API keys has one code for all that fails inside, a late database among it. */
const isUnavailable = ({ status, text }: RawAnswer): boolean =>
  status === 503 || text.includes('"auth_api_key_internal_error"');

/**
 * Asks again where something was unavailable, as it is for moments on a busy machine: what a body
 * does, it does again.
 */
async function answered(requests: readonly RawRequest[]): Promise<RawAnswer[]> {
  const answers = await sendPipelined(strata.url, requests);
  for (const [index, request] of requests.entries()) {
    for (let tries = 1; isUnavailable(answers[index]!) && tries < 20; tries += 1) {
      await delay(tries * 200);
      [answers[index]] = (await sendPipelined(strata.url, [request])) as [RawAnswer];
    }
  }
  return answers;
}

test(`${total} bodies with several faults: none is answered 2xx or 5xx, nothing is stored`, async () => {
  const found = await Promise.all(restRoutes.map(targetOf));
  const targets = found.filter((target) => target !== undefined);
  expect(targets.length).toBeGreaterThan(30);
  const before = await traces();

  const wrong: string[] = [];
  const statuses = new Map<number, number>();
  async function runLane(lane: number): Promise<void> {
    const random = randomFrom(1000 + lane);
    const share = total / lanes;
    for (let done = 0; done < share; done += 500) {
      const requests = Array.from(
        { length: Math.min(500, share - done) },
        (_each, index): RawRequest => {
          const target = targets[(done + index) % targets.length]!;
          return { ...target, body: target.bodyOf(random) };
        },
      );
      const answers = await answered(requests);
      for (const [index, { status, text }] of answers.entries()) {
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const { method, path, body } = requests[index]!;
        const isReasoned = status !== 422 || /"errors":\[\{/.test(text);
        if (status < 400 || status >= 500 || !isReasoned)
          wrong.push(`${method} ${path} ${body.slice(0, 500)}: ${status} ${text.slice(0, 300)}`);
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, (_each, lane) => runLane(lane)));

  expect(wrong.slice(0, 5)).toEqual([]);
  expect([...statuses.values()].reduce((sum, each) => sum + each)).toBe(total);
  // SCIM says 400 in place of 422. The others are throttled.
  const refused = (statuses.get(422) ?? 0) + (statuses.get(400) ?? 0);
  expect(refused).toBeGreaterThan(0.9 * total);
  expect(await traces()).toEqual(before);
});

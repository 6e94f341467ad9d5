/**
 * G6: whatever is sent is refused or kept exactly as it was sent, and nothing that is sent makes an
 * error of ours.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenantWith,
  signIn,
  startStrata,
  type Answer,
  type Client,
  type Running,
  type TenantWith,
} from '../support/strata.ts';

/**
 * GENERATED_BODIES makes it longer, such as the 20,000 of `npm run test:soak`. What is sent depends on
 * the seed alone, so GENERATED_SEED sends others.
 */
const total = Number(process.env.GENERATED_BODIES ?? 400);
const seed = Number(process.env.GENERATED_SEED ?? 1000);
const lanes = 16;
/** Writes of one tenant wait for each other; those of several do not. */
const tenantCount = 4;

let database: Database;
let strata: Running;
let platform: Client;
const tenants: TenantWith<never>[] = [];
/** Bodies that are still to be sent. */
let left = total;
let accepted = 0;
const statuses = new Map<number, number>();

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    LOG_LEVEL: 'warn',
    // On a busy machine many requests at once wait for each other.
    REQUEST_TIMEOUT_MS: '60000',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  for (let each = 0; each < tenantCount; each += 1)
    tenants.push(await createTenantWith(strata.url, platform, `Generated bodies ${each}`));
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

/** Texts that have tripped parsers, databases and objects with a prototype. */
const awkwardText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '__proto__',
    'constructor',
    '',
    '\u2028',
    '\u{1f600}',
    'toString',
    '********',
    '%00',
    '"',
    "'; DROP TABLE x; --",
  ),
);
const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'binary' });
const freeForm = fc.dictionary(awkwardText, json, { maxKeys: 4, noNullPrototype: true });
/** Mostly what is valid, sometimes anything. */
const maybe = <T>(valid: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof(
    { weight: 6, arbitrary: valid as fc.Arbitrary<unknown> },
    { weight: 1, arbitrary: json as fc.Arbitrary<unknown> },
  );
/** Any of the fields, each mostly valid. */
const someOf = (
  fields: Record<string, fc.Arbitrary<unknown>>,
): fc.Arbitrary<Record<string, unknown>> =>
  fc.record(
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, maybe(value)])),
    { requiredKeys: [] },
  );

const limits = someOf({
  max_cost_impact_auto: fc.double({ min: 0, max: 40, noNaN: true }),
  max_cost_impact_approval: fc.double({ min: 40, noNaN: true }),
  max_resource_scaling: fc.double({ min: 1, noNaN: true, noDefaultInfinity: true }),
  approval_timeout_minutes: fc.integer({ min: 1, max: 10_080 }),
  automation_enabled: fc.boolean(),
});
const instances = someOf({
  min_instances: fc.integer({ min: 0, max: 3 }),
  max_instances: fc.integer({ min: 3, max: 50 }),
});

type Fields = Readonly<Record<string, unknown>>;
interface Route {
  /** `T` stands for the tenant, `generated` for a name of the lane's own. */
  readonly path: string;
  readonly by?: 'platform';
  readonly body: fc.Arbitrary<unknown>;
  readonly readsAsSent: (sent: Fields, read: Fields) => boolean;
}

/** Every field that was sent reads back as it was sent; others may be filled in. */
const isKept = (sent: Fields, read: Fields): boolean =>
  Object.keys(sent).every((name) => isDeepStrictEqual(sent[name], read[name]));
const routes: readonly Route[] = [
  {
    path: '/tenants/T/config/risk',
    body: someOf({
      global_settings: limits,
      service_overrides: fc.dictionary(fc.constantFrom('cloud_run', 'cloud_sql'), freeForm, {
        noNullPrototype: true,
      }),
    }),
    readsAsSent: (sent, read) => {
      const limitsKept = isKept(
        (sent.global_settings ?? {}) as Fields,
        read.global_settings as Fields,
      );
      const overridesKept =
        !sent.service_overrides ||
        isDeepStrictEqual(sent.service_overrides, read.service_overrides);
      return limitsKept && overridesKept;
    },
  },
  {
    path: '/tenants/T/config/agents/generated',
    readsAsSent: isKept,
    body: someOf({
      default_region: fc.string({ minLength: 1, maxLength: 50 }),
      default_scaling: instances,
      monitoring_thresholds: fc.dictionary(
        awkwardText,
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        { noNullPrototype: true },
      ),
      templates: freeForm,
      custom: freeForm,
      tools: fc.array(fc.string({ minLength: 1 }), { maxLength: 3 }),
    }),
  },
  {
    path: '/tenants/T/services/generated',
    readsAsSent: isKept,
    body: someOf({
      service_type: fc.constant('cloud_run'),
      service_name: fc.string({ minLength: 1, maxLength: 50 }),
      custom_thresholds: freeForm,
      min_instances: fc.integer({ min: 0, max: 3 }),
      max_instances: fc.integer({ min: 3, max: 50 }),
      monitoring_enabled: fc.boolean(),
    }),
  },
  {
    path: '/tenants/T/projects/generated/config',
    readsAsSent: isKept,
    body: someOf({
      name: fc.string({ minLength: 1, maxLength: 50, unit: 'binary' }),
      labels: fc.dictionary(awkwardText, fc.string({ unit: 'binary' }), { noNullPrototype: true }),
      project_config: freeForm,
      budget: fc.record({
        amount: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
        currency: fc.constant('EUR'),
      }),
    }),
  },
  {
    path: '/tenants/T/config/notifications',
    readsAsSent: (sent, read) => isDeepStrictEqual(sent, read),
    body: someOf({
      escalation: someOf({ max_hops: fc.integer({ min: 0, max: 20 }) }),
      approval_policy: someOf({
        required: someOf({ critical: fc.integer({ min: 1, max: 20 }) }),
        allow_self: fc.boolean(),
        machines: fc.boolean(),
      }),
      approver_groups: someOf({
        risk_levels: someOf({ low: fc.array(fc.constantFrom('a', 'b')) }),
        action_overrides: fc.dictionary(
          fc.constantFrom('x', 'y', '__proto__'),
          fc.array(fc.constantFrom('a', 'b')),
          { noNullPrototype: true },
        ),
      }),
    }),
  },
  {
    path: '/config/global/generated',
    by: 'platform',
    readsAsSent: isKept,
    body: fc.record(
      { config_value: json, is_public: maybe(fc.boolean()) },
      { requiredKeys: ['config_value'] },
    ),
  },
  {
    path: '/config/service-types/generated/default',
    by: 'platform',
    readsAsSent: isKept,
    body: someOf({
      default_settings: freeForm,
      monitoring_defaults: freeForm,
      is_active: fc.boolean(),
      scaling_limits: instances,
    }),
  },
];
/** Anything is posted to these; hardly any of it is accepted. */
const others = [
  '/tenants',
  '/tenants/T/users',
  '/tenants/T/config/rollback',
  '/config/rollback',
  '/configurations/cache/invalidate',
  '/auth/refresh',
];

const ofPlatform: readonly string[] = ['/tenants', '/config/rollback'];

/**
 * A lane sends its share of the bodies one after the other. It owns the documents it writes, so
 * that what it reads is what it wrote; what exists once per tenant is written by the first lane of
 * the tenant, and the others only try.
 */
async function runLane(lane: number): Promise<void> {
  for (const { route, body } of samplesOf(lane)) {
    if (left <= 0) return;
    left -= 1;
    if (route) await replace(route, body, lane);
    else await post(others[left % others.length]!, body, lane);
  }
}

const tenantOf = (lane: number): TenantWith<never> => tenants[lane % tenantCount]!;

interface Sample {
  readonly body: unknown;
  /** Without one it is posted to one of the others. */
  readonly route?: Route;
}
const anyBody: fc.Arbitrary<Sample> = json.map((body) => ({ body }));
const anySample = fc.oneof(
  ...routes.map((route): fc.Arbitrary<Sample> => route.body.map((body) => ({ body, route }))),
  { weight: 2, arbitrary: anyBody },
);
const samplesOf = (lane: number): Sample[] =>
  fc.sample(anySample, { numRuns: Math.ceil(total / lanes), seed: seed + lane });

/**
 * Asks again while something is unavailable, as it is for moments on a busy machine: what a body
 * does, it does again.
 */
async function answered(ask: () => Promise<Answer>): Promise<Answer> {
  let answer = await ask();
  for (let tries = 1; answer.status === 503 && tries < 20; tries += 1) {
    await delay(tries * 200);
    answer = await ask();
  }
  return answer;
}

async function replace(route: Route, body: unknown, lane: number): Promise<void> {
  const { id, admin } = tenantOf(lane);
  const path = route.path.replace('/T/', `/${id}/`).replace('generated', `generated-${lane}`);
  const client = route.by === 'platform' ? platform : admin;
  const isOwn = path.includes('generated') || lane < tenantCount;
  const answer = await answered(() => client.put(isOwn ? path : `${path}?dry_run=true`, body));
  count(answer, path, body);
  if (!isOwn || answer.status >= 300) return;
  accepted += 1;
  // Through text: what a value is in JSON, such as 0 for -0, is what was sent.
  const sent = JSON.parse(JSON.stringify(body)) as Fields | null;
  const read = await answered(() => client.get(path));
  const readsAsSent = sent === null ? read.body === null : route.readsAsSent(sent, read.body);
  if (read.status !== 200 || !readsAsSent)
    throw new Error(`${path} was sent ${JSON.stringify(body)} and reads ${read.text}`);
}

async function post(template: string, body: unknown, lane: number): Promise<void> {
  const { id, admin } = tenantOf(lane);
  const path = template.replace('/T/', `/${id}/`);
  const client = ofPlatform.includes(path) ? platform : admin;
  count(await answered(() => client.send('POST', path, { body })), path, body);
}

function count(answer: Answer, path: string, body: unknown): void {
  statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
  if (answer.status >= 500)
    throw new Error(`${answer.status} ${path} ${JSON.stringify(body)} ${answer.text}`);
}

test(`${total} generated bodies: no 5xx, and what is accepted reads back as sent (seed ${seed})`, async () => {
  await Promise.all(Array.from({ length: lanes }, (_each, lane) => runLane(lane)));
  expect(left).toBeLessThanOrEqual(0);
  expect(accepted).toBeGreaterThan(total / 10);
  expect([...statuses.values()].reduce((sum, each) => sum + each)).toBe(total);
});

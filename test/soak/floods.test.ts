/**
 * Floods of requests that anyone may send, from one network and from many, while people of another
 * network sign in. The routes come from the contracts, so that a new public route is flooded from
 * its first day.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomBytes, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { TSchema } from 'typebox';
import { nodePaths } from '../../gateway/http/node-routes.ts';
import { restRoutes, type RestRoute } from '../../gateway/http/rest.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import { newApiKey } from '../../shared/security/api-keys.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenant,
  memberPassword,
  signIn,
  startStrata,
  type Running,
} from '../support/strata.ts';
import { randomFrom, valueOf } from '../support/values-of-schema.ts';

/** How long a request may take. On a busy machine a flood leaves it little. */
const patienceMs = 60_000;

let database: Database;
let strata: Running;
let people: readonly string[];
beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    TRUSTED_PROXIES: '127.0.0.0/8',
    LOG_LEVEL: 'error',
    REQUEST_TIMEOUT_MS: String(patienceMs),
  });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  const { emails } = await createTenant(strata.url, platform, 'Flooded');
  people = Object.values(emails);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});

/** What is sent over and over. */
interface Shot {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}
/** The nth request of a flood. */
type Ammunition = (index: number) => Shot;

/** Bodies that pass their schema, where a generated one would not, or would always be the same. */
const bodies: Readonly<Record<string, (index: number) => unknown>> = {
  'auth.login': (index) => ({ email: `no one-${index}@example.com`, password: 'a wrong guess' }),
  'auth.refresh': () => ({ refresh_token: randomBytes(32).toString('base64url') }),
  'auth.password.forgot': (index) => ({ email: `no one-${index}@example.com` }),
  'auth.password.reset': () => ({
    token: randomBytes(32).toString('base64url'),
    new_password: 'grapefruit lamp seventy',
  }),
  'auth.login.sso.start': () => ({
    provider_id: randomUUID(),
    redirect_uri: 'https://app.example.com/back',
    client_challenge: randomBytes(32).toString('base64url'),
  }),
  'auth.login.sso': () => ({
    code: 'made-up',
    state: randomBytes(16).toString('base64url'),
    client_verifier: randomBytes(32).toString('base64url'),
  }),
};

/** A value that passes the schema; throws where none was found, and `bodies` needs one. */
function goodValue(name: string, schema: TSchema): unknown {
  for (let seed = 0; seed < 1000; seed += 1) {
    const value = valueOf(schema, randomFrom(seed));
    if (problemsOf(schema, value).length === 0) return value;
  }
  throw new Error(`invalid value for ${name}`);
}

function ammunitionOf({ name, contract, rest }: RestRoute): Ammunition {
  const { properties } = contract.params;
  const query = rest.query
    .filter((parameter) => contract.params.required?.includes(parameter) || parameter === 'email')
    .map((parameter) => {
      const value = goodValue(`${name} ${parameter}`, properties[parameter]!);
      return `${parameter}=${encodeURIComponent(String(value))}`;
    });
  const at = rest.path.replaceAll(/\{(\w+)\}/g, (_whole, parameter: string) =>
    encodeURIComponent(String(goodValue(`${name} ${parameter}`, properties[parameter]!))),
  );
  const path = query.length > 0 ? `${at}?${query.join('&')}` : at;
  if (!rest.body) return () => ({ method: rest.method, path });
  const made = bodies[name];
  const fixed = made ? undefined : goodValue(name, properties.body!);
  return (index) => ({ method: rest.method, path, body: made ? made(index) : fixed });
}

const publicRoutes = restRoutes.filter(
  ({ contract: { access } }) => access.level === 'public' || 'publicWith' in access,
);
const withoutContract = [...nodePaths, '/docs', '/nowhere'];
const floods: readonly (readonly [string, Ammunition])[] = [
  ...publicRoutes.map(
    (route) => [`${route.rest.method} ${route.rest.path}`, ammunitionOf(route)] as const,
  ),
  [
    'GET /auth/me with made-up API keys, whose checksums are right',
    () => ({
      method: 'GET',
      path: '/auth/me',
      headers: { 'x-api-key': newApiKey(randomUUID()).key },
    }),
  ],
  [
    `GET ${withoutContract.join(', ')}`,
    (index) => ({ method: 'GET', path: withoutContract[index % withoutContract.length]! }),
  ],
];

/** One request over one of the flood's connections; the status of its answer. */
function fire(agent: Agent, { method, path, body, headers }: Shot, from: string): Promise<number> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const sending = request(strata.url + path, {
      method,
      agent,
      headers: {
        'x-forwarded-for': from,
        ...headers,
        ...(text === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      },
    });
    sending.once('response', (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode!));
      response.once('error', reject);
    });
    sending.once('error', reject);
    sending.end(text);
  });
}

interface Flood {
  readonly connections: number;
  /** Where the nth request comes from. */
  readonly from: (index: number) => string;
}
/**
 * Every connection sends its next request as soon as it has an answer, until `stop`, which gives
 * how often each status was answered.
 */
function startFlood(ammunition: Ammunition, { connections, from }: Flood) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const statuses = new Map<number, number>();
  const end = new AbortController();
  let sent = 0;
  async function keepFiring(): Promise<void> {
    while (!end.signal.aborted) {
      sent += 1;
      const status = await fire(agent, ammunition(sent), from(sent));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  const connected = Array.from({ length: connections }, keepFiring);
  return {
    async stop(): Promise<Map<number, number>> {
      end.abort();
      await Promise.all(connected);
      agent.destroy();
      return statuses;
    },
  };
}

const signIns = 12;
let offices = 0;
/**
 * How many of `signIns` people, four at a time and from a network of theirs, got in within the time
 * of a request.
 */
async function honestSignIns(): Promise<number> {
  offices += 1;
  const home = `10.77.${offices}.7`;
  let left = signIns;
  let succeeded = 0;
  async function signInOneAfterAnother(email: string): Promise<void> {
    while (left > 0) {
      left -= 1;
      const began = performance.now();
      const { status } = await new Client(strata.url).post(
        '/auth/login',
        { email, password: memberPassword },
        { 'x-forwarded-for': home },
      );
      if (status === 200 && performance.now() - began < patienceMs) succeeded += 1;
    }
  }
  await Promise.all([...people, people[0]!].map(signInOneAfterAnother));
  return succeeded;
}

/** Floods while people sign in; the statuses that the flood was answered with. */
async function signInDuring(ammunition: Ammunition, flood: Flood): Promise<Map<number, number>> {
  const running = startFlood(ammunition, flood);
  await delay(200);
  const succeeded = await honestSignIns();
  const statuses = await running.stop();
  expect(succeeded).toBeGreaterThanOrEqual(signIns * 0.95);
  return statuses;
}

const sum = (statuses: Map<number, number>, fits: (status: number) => boolean): number =>
  [...statuses].reduce((total, [status, count]) => total + (fits(status) ? count : 0), 0);

describe('people of another network sign in during a flood of', () => {
  let floodsSoFar = 0;
  test.each(floods)('%s', async (_route, ammunition) => {
    floodsSoFar += 1;
    const attacker = `10.66.${floodsSoFar}.6`;
    const statuses = await signInDuring(ammunition, { connections: 40, from: () => attacker });
    expect(sum(statuses, () => true)).toBeGreaterThan(40);
    // A bad request says nothing about a flood of good ones.
    expect(statuses.get(422)).toBeUndefined();
    expect(sum(statuses, (status) => status >= 500 && status !== 503)).toBe(0);
  });
});

const ammunitionFor = (name: string): Ammunition =>
  ammunitionOf(publicRoutes.find((route) => route.name === name)!);

test('120 connections that send made-up reset links keep no one out', async () => {
  const began = performance.now();
  const statuses = await signInDuring(ammunitionFor('auth.password.reset'), {
    connections: 120,
    from: () => '10.88.1.1',
  });
  // Each minute, of which a busy machine may need several.
  const minutes = Math.ceil((performance.now() - began) / 60_000);
  expect(statuses.get(401)).toBeGreaterThanOrEqual(20);
  expect(statuses.get(401)).toBeLessThanOrEqual(20 * minutes);
  expect(statuses.get(429)).toBeGreaterThan(100);
});

test('passwords that are guessed from twelve networks at once keep no one out', async () => {
  await signInDuring(ammunitionFor('auth.login'), {
    connections: 72,
    from: (index) => `10.99.${index % 12}.9`,
  });
});

test('and all that leaves the audit as it was, but for the networks that wait', async () => {
  const rows = await database.query<{ action: string; count: number }>(
    `SELECT action, count(*)::int AS count FROM (
       SELECT event->>'action' AS action FROM strata.outbox UNION ALL SELECT action FROM audit.events
     ) AS recorded GROUP BY action`,
  );
  const counts = Object.fromEntries(rows.map(({ action, count }) => [action, count]));
  expect(counts['auth.login_succeeded']).toBeGreaterThan(100);
  expect(counts['auth.network_throttled']).toBeGreaterThan(0);
  // A few of each network, and not one of each request.
  expect(counts['auth.network_throttled']).toBeLessThan(1000);
  expect(counts['auth.login_failed']).toBeUndefined();
  expect(counts['auth.password_reset_requested']).toBeUndefined();
});

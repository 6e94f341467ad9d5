/**
 * Actions with failure codes of their own (`failures` in their contracts) meet real faults: a
 * renamed table, a broken row, a PostgreSQL that stalls or is gone. A new contract with `failures`
 * needs a case here, and each of its codes a fault.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { isoCBOR } from '@simplewebauthn/server/helpers';
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { apiKeyActions } from '../../services/auth/api-keys/actions/api-keys.ts';
import { withFailureCodes } from '../../services/auth/rules/failure-codes.ts';
import { authSchema } from '../../services/auth/schema.ts';
import { serviceCaller } from '../../shared/access.ts';
import { contracts, type ActionName } from '../../shared/contracts/index.ts';
import type { Contract, FailureCodes } from '../../shared/contracts/contract.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { errorTable, type ErrorCode } from '../../shared/contracts/error-codes.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { assertion, flags } from '../support/browser.ts';
import { eventually } from '../support/cluster.ts';
import { startHonestProvider, type HonestProvider } from '../support/identity-providers.ts';
import { createDatabase, startPostgres, type Database, type Server } from '../support/postgres.ts';
import {
  adminPassword,
  Client,
  createTenantWith,
  memberPassword,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantWith,
} from '../support/strata.ts';
import { inTurn } from '../support/turns.ts';

/** Two statements: one breaks something in the database, the other repairs it. */
interface Fault {
  readonly what: string;
  readonly kind: keyof FailureCodes;
  readonly make: string;
  readonly undo: string;
}
interface Case {
  readonly action: ActionName;
  /**
   * Goes through the whole protocol but for the last request, and gives that one to be sent later.
   */
  readonly begin: () => Promise<() => Promise<Answer>>;
  /** A request that is refused with `code`; a refusal must never be reported as a failure. */
  readonly refused: { readonly send: () => Promise<Answer>; readonly code: ErrorCode };
  readonly faults: readonly Fault[];
}

const origin = 'https://app.example.com';
const redirectUri = `${origin}/signed-in`;
const passkey = {
  id: randomBytes(16).toString('base64url'),
  ...generateKeyPairSync('ec', { namedCurve: 'P-256' }),
};
let server: Server;
let database: Database;
let strata: Running;
let anyone: Client;
let tenant: TenantWith<never>;
let honest: HonestProvider;
let providerId: string;
let userId: string;
let counter = 0;

beforeAll(async () => {
  [server, honest] = await Promise.all([
    startPostgres(),
    startHonestProvider({
      client_id: 'strata',
      client_secret: 'a secret of the provider',
      redirect_uris: [redirectUri],
    }),
  ]);
  database = await createDatabase(server.url);
  strata = await startStrata({
    DATABASE_URL: database.url,
    REQUEST_TIMEOUT_MS: '4000',
    FRONTEND_ORIGIN: origin,
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    WEBHOOK_ALLOW_HTTP: 'true',
  });
  anyone = new Client(strata.url);
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenantWith(strata.url, platform, 'Failures');
  const provider = await platform.post('/auth/sso/providers', {
    name: 'Company',
    issuer: honest.issuer,
    client_id: 'strata',
    client_secret: 'a secret of the provider',
    tenant_id: tenant.id,
    domains: [{ domain: 'company.example', verified: true }],
    redirect_uris: [redirectUri],
    jit_enabled: true,
    default_roles: ['viewer'],
  });
  providerId = provider.body.id;
  userId = (await tenant.admin.get('/auth/me')).body.user.id;
  const { x, y } = passkey.publicKey.export({ format: 'jwk' });
  const coordinate = (text: string | undefined): Uint8Array<ArrayBuffer> =>
    new Uint8Array(Buffer.from(text!, 'base64url'));
  // RFC 9053: EC2, ES256, P-256.
  const cose = isoCBOR.encode(
    new Map<number, number | Uint8Array<ArrayBuffer>>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, coordinate(x)],
      [-3, coordinate(y)],
    ]),
  );
  await database.query(
    `INSERT INTO auth.passkeys VALUES (gen_random_uuid(), $1, $2, $3, 0, NULL, gen_random_uuid(), '{}', false, false, now(), NULL)`,
    [userId, passkey.id, Buffer.from(cose)],
  );
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await honest?.close();
  await server?.stop();
});

const login = (password = memberPassword): Promise<Answer> =>
  anyone.post('/auth/login', { email: tenant.emails.tenant_admin, password });
const renamed = (what: string, table: string): Fault => ({
  what,
  kind: 'database',
  make: `ALTER TABLE ${table} RENAME TO away`,
  undo: `ALTER TABLE ${table.split('.')[0]}.away RENAME TO ${table.split('.')[1]}`,
});

/** Faults of what every session needs. */
const faultsOfSession: readonly Fault[] = [
  renamed('accounts that cannot be read', 'auth.users'),
  renamed('sessions that cannot be read', 'auth.sessions'),
];
/**
 * Faults of what every way of signing in needs, two of the tables by turns. Memberships are read by
 * another service.
 */
const faultsOfSignIn = (way: number): readonly Fault[] => [
  ...inTurn(
    [
      ...faultsOfSession,
      renamed('memberships that cannot be read', 'tenant_config.members'),
      renamed('tenants that cannot be read', 'tenant_config.tenants'),
    ],
    way,
    2,
  ),
  {
    what: 'roles that make no sense',
    kind: 'unexpected',
    make: `UPDATE tenant_config.members SET roles = array_append(roles, 'nonsense')`,
    undo: `UPDATE tenant_config.members SET roles = array_remove(roles, 'nonsense')`,
  },
];

const passkeyAssertion = (challenge: string) => {
  counter += 1;
  return assertion({
    challenge,
    origin,
    rpId: 'app.example.com',
    type: 'webauthn.get',
    flags: flags.present | flags.verified,
    counter,
    id: passkey.id,
    userHandle: Buffer.from(userId).toString('base64url'),
    key: passkey.privateKey,
  });
};

async function beginPasskeyLogin(): Promise<{ challenge_id: string; challenge: string }> {
  const { body } = await anyone.post('/auth/webauthn/login/options', {});
  return { challenge_id: body.challenge_id, challenge: body.publicKey.challenge };
}

const cases: readonly Case[] = [
  {
    action: 'auth.api-key.create',
    // Signed in just now, so that no node has the session in memory.
    async begin() {
      const owner = await signIn(strata.url, tenant.emails.tenant_admin!, memberPassword);
      return () => owner.post('/auth/api-key', { name: 'ci' });
    },
    refused: {
      send: () => tenant.admin.post('/auth/api-key', { name: 'ci', expires_in_days: 366 }),
      code: 'validation_failed',
    },
    faults: [...faultsOfSession, renamed('keys that cannot be stored', 'auth.api_keys')],
  },
  {
    action: 'auth.login',
    begin: async () => () => login(),
    refused: { send: () => login('wrong-password-123'), code: 'auth_invalid_credentials' },
    faults: [
      ...faultsOfSignIn(0),
      {
        what: 'a stored hash that is broken',
        kind: 'unexpected',
        make: `UPDATE auth.users SET password_hash = 'broken' || password_hash`,
        undo: 'UPDATE auth.users SET password_hash = substr(password_hash, 7)',
      },
    ],
  },
  {
    action: 'auth.refresh',
    async begin() {
      const { body } = await login();
      return () => anyone.post('/auth/refresh', { refresh_token: body.refresh_token });
    },
    refused: {
      send: () => anyone.post('/auth/refresh', { refresh_token: 'strr_unknown' }),
      code: 'auth_refresh_invalid',
    },
    faults: [
      ...faultsOfSignIn(1),
      renamed('refresh tokens that cannot be read', 'auth.refresh_tokens'),
      {
        what: 'a session without an end',
        kind: 'unexpected',
        make: `UPDATE auth.sessions SET expires_at = 'infinity'`,
        undo: `UPDATE auth.sessions SET expires_at = now() + interval '1 day'`,
      },
    ],
  },
  {
    action: 'auth.webauthn.login.verify',
    async begin() {
      const { challenge_id, challenge } = await beginPasskeyLogin();
      const credential = passkeyAssertion(challenge);
      return () => anyone.post('/auth/webauthn/login/verify', { challenge_id, credential });
    },
    refused: {
      async send() {
        const { challenge_id } = await beginPasskeyLogin();
        const credential = passkeyAssertion('another');
        return anyone.post('/auth/webauthn/login/verify', { challenge_id, credential });
      },
      code: 'auth_webauthn_verification_failed',
    },
    faults: [...faultsOfSignIn(2), renamed('passkeys that cannot be read', 'auth.passkeys')],
  },
  {
    action: 'auth.login.sso',
    async begin() {
      const verifier = randomBytes(32).toString('base64url');
      const started = await anyone.post('/auth/login/sso/start', {
        provider_id: providerId,
        redirect_uri: redirectUri,
        client_challenge: createHash('sha256').update(verifier).digest('base64url'),
      });
      const { searchParams } = await honest.authorize(started.body.authorization_url, {
        sub: 'one',
        email: 'one@company.example',
        email_verified: true,
        name: 'One',
      });
      return () =>
        anyone.post('/auth/login/sso', {
          state: started.body.state,
          client_verifier: verifier,
          code: searchParams.get('code'),
          iss: searchParams.get('iss'),
        });
    },
    refused: {
      send: () =>
        anyone.post('/auth/login/sso', {
          state: 'unknown',
          client_verifier: 'v'.repeat(43),
          code: 'c',
        }),
      code: 'auth_sso_state_invalid',
    },
    faults: [
      ...faultsOfSignIn(3),
      renamed('providers that cannot be read', 'auth.sso_providers'),
      renamed('links that cannot be read', 'auth.sso_identities'),
      {
        what: 'a client secret that does not open',
        kind: 'unexpected',
        make: `UPDATE auth.sso_providers SET client_secret = client_secret || 'AAAA'`,
        undo: `UPDATE auth.sso_providers SET client_secret = left(client_secret, -4)`,
      },
    ],
  },
];

const failuresOf = (action: ActionName): FailureCodes => {
  const { failures }: Contract = contracts[action];
  if (!failures) throw new Error(`the contract of ${action} names no failures`);
  return failures;
};

const faultyCases = cases.flatMap(({ action, begin, faults }) =>
  faults.map((fault) => ({ action, begin, fault, what: fault.what })),
);

interface Logged {
  readonly request_id?: string;
  readonly level: string;
  readonly code?: string;
  readonly err?: { readonly message: string; readonly stack: string };
}
const logged = (requestId: string): Logged[] =>
  strata
    .output()
    .split('\n')
    .filter((line) => line.includes(requestId))
    .map((line) => JSON.parse(line) as Logged);

/** The envelope, nothing of the cause in it, and the cause in the log under the request id. */
async function expectFailure(answer: Answer, code: ErrorCode, cause: RegExp): Promise<void> {
  const { status, message } = errorTable[code];
  expect(status).toBe(code.endsWith('_db_error') ? 503 : 500);
  const requestId = answer.headers.get('x-request-id')!;
  expect([answer.status, answer.body]).toEqual([
    status,
    { detail: { status: 'error', code, message }, request_id: requestId },
  ]);
  expect(answer.headers.get('content-type')).toBe('application/json');
  expect(answer.headers.has('retry-after')).toBe(status === 503);
  await eventually(async () => {
    const entries = logged(requestId);
    expect(entries.filter((entry) => entry.code === code && entry.level === 'error')).toHaveLength(
      1,
    );
    expect(JSON.stringify(entries)).toMatch(cause);
  });
}

test('every action with failure codes of its own has a case', () => {
  const all: readonly [string, Contract][] = Object.entries(contracts);
  const declared = all.filter(([, { failures }]) => failures).map(([action]) => action);
  expect(cases.map(({ action }) => action).sort()).toEqual(declared.sort());
});

test.each(cases)('every failure code of $action is brought about', ({ action, faults }) => {
  const { database: databaseCode, unexpected } = failuresOf(action);
  // One code for both needs one fault.
  const kinds = databaseCode === unexpected ? ['database'] : ['database', 'unexpected'];
  expect(faults.map(({ kind }) => kind)).toEqual(expect.arrayContaining(kinds));
});

describe('faults', () => {
  let undo: string | undefined;
  afterEach(async () => {
    if (undo !== undefined) await database.query(undo);
    undo = undefined;
  });

  test.each(faultyCases)('$action meets $what', async ({ action, begin, fault }) => {
    const send = await begin();
    await database.query(fault.make);
    undo = fault.undo;
    const cause = fault.kind === 'database' ? /does not exist/ : /"stack"/;
    await expectFailure(await send(), failuresOf(action)[fault.kind], cause);
    await database.query(fault.undo);
    undo = undefined;
    const sendAfterwards = await begin();
    expect((await sendAfterwards()).status).toBeLessThan(300);
  });

  test('a refresh that fails for want of memberships leaves its token good for later', async () => {
    const { body } = await login();
    const refresh = () => anyone.post('/auth/refresh', { refresh_token: body.refresh_token });
    const fault = renamed('memberships', 'tenant_config.members');
    await database.query(fault.make);
    undo = fault.undo;
    expect((await refresh()).status).toBe(503);
    await database.query(fault.undo);
    undo = undefined;
    await database.query(
      `UPDATE auth.refresh_tokens SET used_at = used_at - interval '11 seconds'`,
    );
    expect((await refresh()).status).toBe(200);
  });
});

test.each(cases)('$action refuses in its own words', async ({ refused }) => {
  const { status, body } = await refused.send();
  expect([status, body.detail.code]).toEqual([errorTable[refused.code].status, refused.code]);
});

test('an API key cannot be made without a key to hash it under', async () => {
  const source = await openDatabase(
    { url: database.url, poolSize: 1, timeoutMs: 5000, ssl: false },
    authSchema,
  );
  const settings = () => ({ ...loadSettings({ SECRET_KEY: 'x'.repeat(32) }), secret_key: null });
  const lines: unknown[] = [];
  const request = {
    caller: serviceCaller('test'),
    log: { error: (entry: unknown) => lines.push(entry) },
  };
  const actions = withFailureCodes(apiKeyActions({ db: source, settings, notices: { send() {} } }));
  try {
    await expect(
      actions['auth.api-key.create']({ body: { name: 'ci' } }, request as never),
    ).rejects.toMatchObject({ type: 'auth_api_key_internal_error' });
    expect(lines).toMatchObject([{ err: { code: 'ERR_INVALID_ARG_TYPE' } }]);
  } finally {
    await source.destroy();
  }
});

describe('PostgreSQL', () => {
  /** Every case up to its last request, so that the fault meets that one. */
  const beginAll = () =>
    Promise.all(cases.map(async ({ action, begin }) => ({ action, send: await begin() })));

  test('stalls: each action has its code before the request times out, and continues afterwards', async () => {
    const requests = await beginAll();
    const backends = await database.query<{ pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    const processes = [server.pid!, ...backends.map(({ pid }) => pid)];
    const signal = (name: NodeJS.Signals): void => {
      for (const pid of processes) {
        try {
          process.kill(pid, name);
        } catch {
          /* this one has ended */
        }
      }
    };
    signal('SIGSTOP');
    try {
      // Beside each other: each waits for as long as a request has.
      const answers = await Promise.all(requests.map(({ send }) => send()));
      for (const [index, { action }] of requests.entries())
        await expectFailure(answers[index]!, failuresOf(action).database, /timeout/i);
      const invalid = await anyone.post('/auth/login', { email: 'a@b.example' });
      expect([invalid.status, invalid.body.detail.code]).toEqual([422, 'validation_failed']);
    } finally {
      signal('SIGCONT');
    }
    for (const { begin } of cases) {
      await eventually(async () => {
        const send = await begin();
        expect((await send()).status).toBeLessThan(300);
      });
    }
  });

  test('is gone: each action has its code', async () => {
    const requests = await beginAll();
    await server.stop();
    const cause = /ECONN|terminat|ENOENT|closed/i;
    for (const { action, send } of requests)
      await expectFailure(await send(), failuresOf(action).database, cause);
  });
});

/**
 * What signing in costs: people by password and by passkey, sessions that are renewed, API keys that
 * a gateway sees for the first time, each a second for a core of the node. Beside what Keycloak says
 * one vCPU is good for: keycloak.org/high-availability/concepts-memory-and-cpu-sizing.
 */
import { generateKeyPairSync } from 'node:crypto';
import { assertion, flags, newCredential, type CoseKey } from '../support/browser.ts';
import { Client, createTenant, memberPassword, type Answer } from '../support/strata.ts';
import { cpuMs, serverCore } from './machine.ts';
import type { Comparison, Group } from './report.ts';
import { platformAdmin, startStage, type Node } from './stage.ts';

const origin = 'http://localhost:3000';
const rpId = 'localhost';
/** So many at once, so that the node waits for none of them. */
const atOnce = 4;

const good = ({ status, text, body }: Answer): Answer['body'] => {
  if (status >= 300) throw new Error(`${status} ${text}`);
  return body;
};

/** Does it so many times; how often it could be done in a second of the node's processor time. */
async function perCore(node: Node, times: number, work: () => Promise<unknown>): Promise<number> {
  const before = cpuMs(node.pid);
  let left = times;
  const client = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return (times * 1000) / (cpuMs(node.pid) - before);
}

/** Adds a passkey to an account; returns how to sign in with it. */
async function withPasskey(mine: Client): Promise<() => Promise<unknown>> {
  const anyone = new Client(mine.url);
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x, y } = publicKey.export({ format: 'jwk' });
  const part = (text: string | undefined) => new Uint8Array(Buffer.from(text!, 'base64url'));
  // RFC 9053: an ES256 key on P-256.
  const cose: CoseKey = new Map<number, number | Uint8Array<ArrayBuffer>>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, part(x)],
    [-3, part(y)],
  ]);
  const begun = good(await mine.post('/auth/webauthn/register/options', {}));
  const { challenge, user } = begun.publicKey;
  const credential = newCredential({ challenge, origin, rpId, publicKey: cose });
  good(
    await mine.post('/auth/webauthn/register/verify', {
      challenge_id: begun.challenge_id,
      credential,
    }),
  );
  return async () => {
    const login = good(await anyone.post('/auth/webauthn/login/options', {}));
    const signed = assertion({
      challenge: login.publicKey.challenge,
      origin,
      rpId,
      type: 'webauthn.get',
      flags: flags.present | flags.verified,
      // An authenticator that does not count.
      counter: 0,
      id: credential.id,
      userHandle: user.id,
      key: privateKey,
    });
    good(
      await anyone.post('/auth/webauthn/login/verify', {
        challenge_id: login.challenge_id,
        credential: signed,
      }),
    );
  };
}

export const signIn: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const node = await stage.start([], serverCore, {
      ...stage.alone,
      FRONTEND_ORIGIN: origin,
      RATE_LIMIT_PER_MINUTE: '0',
      NETWORK_RATE_LIMIT_PER_MINUTE: '1000000',
      SESSIONS_PER_PERSON: '10000',
      API_KEYS_PER_PERSON: '10000',
      API_KEYS_PER_MINUTE: '100000',
    });
    const tenant = await createTenant(node.url, await platformAdmin(node.url), 'Bench');
    const anyone = new Client(node.url);
    const email = tenant.emails.operator;
    const byPassword = async () =>
      good(await anyone.post('/auth/login', { email, password: memberPassword }));
    const byPasskey = await withPasskey(tenant.viewer);

    const found: Record<'password' | 'passkey' | 'refresh' | 'key', number[]> = {
      password: [],
      passkey: [],
      refresh: [],
      key: [],
    };
    const times = 25 * seconds;
    for (let round = 0; round < rounds; round += 1) {
      found.password.push(await perCore(node, times, byPassword));
      found.passkey.push(await perCore(node, times, byPasskey));
      const tokens: string[] = [];
      const keys: string[] = [];
      for (let each = 0; each < atOnce; each += 1) tokens.push((await byPassword()).refresh_token);
      for (let each = 0; each < times * 4; each += 1)
        keys.push(good(await tenant.admin.post('/auth/api-key', { name: `k${each}` })).api_key);
      found.refresh.push(
        await perCore(node, times * 4, async () => {
          const refreshed = await anyone.post('/auth/refresh', { refresh_token: tokens.shift() });
          tokens.push(good(refreshed).refresh_token);
        }),
      );
      const path = `/tenants/${tenant.id}/config/risk`;
      found.key.push(
        await perCore(node, times * 4, async () =>
          good(await new Client(node.url, keys.pop()).get(path)),
        ),
      );
    }
    const row = (what: string, of: keyof typeof found, grants: string, published: number) =>
      ({
        what,
        peer: `what Keycloak publishes for ${grants}`,
        unit: '/s of a core',
        strata: found[of],
        baseline: Array<number>(rounds).fill(published),
      }) satisfies Comparison;
    return {
      rows: [
        row('sign-ins by password', 'password', 'password-based logins', 15),
        row('sign-ins by passkey', 'passkey', 'password-based logins', 15),
        row('sessions renewed', 'refresh', 'refresh token requests', 120),
        row('API keys seen for the first time', 'key', 'client credential grants', 200),
      ],
    };
  } finally {
    await stage.stop();
  }
};

/**
 * Redis as it is run for a failover: three Sentinels over a primary and its replica, and a cluster
 * of three. All gateways count together there, and what may be taken once is taken once, also where
 * the replica that takes over has not received that it was.
 */
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { mailsTo } from '../support/mailboxes.ts';
import { startRedisCluster, startSentinels, type Sentinels } from '../support/redis.ts';
import type { Process } from '../support/servers.ts';
import { Client, signIn, type Answer } from '../support/strata.ts';

const limit = 150;
const shared = {
  RATE_LIMIT_PER_MINUTE: String(limit),
  TRUSTED_PROXIES: '127.0.0.0/8',
};
let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.stop();
  cluster = undefined;
});

/** From one address, in turn through all gateways: how many are let through. */
async function letThrough(requests: number, address: string): Promise<number> {
  const statuses = await Promise.all(
    Array.from({ length: requests }, async (_each, index) => {
      const { url } = cluster!.gateways[index % cluster!.gateways.length]!;
      const { status } = await new Client(url).get('/tenants', { 'x-forwarded-for': address });
      return status;
    }),
  );
  return statuses.filter((status) => status !== 429).length;
}

/** Each from another network, since one waits after some of these. */
let asked = 0;
function ask(path: string, body: unknown): Promise<Answer> {
  asked += 1;
  const from = `198.18.${asked % 250}.1`;
  return new Client(cluster!.gateways[0]!.url).post(path, body, { 'x-forwarded-for': from });
}

/** The token of a link that resets the password of the tenant's viewer. */
async function resetToken(nth: number): Promise<string> {
  const address = cluster!.tenant.emails.viewer!;
  const { status } = await ask('/auth/password/forgot', { email: address });
  expect(status).toBe(202);
  return eventually(async () => {
    const mails = (await mailsTo(address)).join('\n').replaceAll('=\r\n', '');
    const links = [...mails.matchAll(/reset-password#token=(?:3D)?([\w-]{43})/g)];
    const tokens = [...new Set(links.map(([, token]) => token!))];
    expect(tokens.length).toBe(nth);
    return tokens.at(-1)!;
  });
}

/**
 * A Sentinel whose own clock halted for two seconds answers as before for thirty more (TILT), which
 * on a busy machine is again and again.
 */
const failoverMs = 300_000;

/** Asked again while Redis is away, which a failover can be twice for a client. */
const reset = (token: string, password: string): Promise<number> =>
  eventually(async () => {
    const { status, text } = await ask('/auth/password/reset', { token, new_password: password });
    if (status === 503) throw new Error(text);
    return status;
  }, failoverMs);

describe('three Sentinels', () => {
  let sentinels: Sentinels;
  afterAll(() => sentinels?.stop());

  test('a failover keeps the limit of all gateways, and gives nothing out twice', async () => {
    sentinels = await startSentinels();
    cluster = await startCluster({
      gateways: 2,
      environment: { ...shared, REDIS_URL: sentinels.url, REDIS_SENTINEL: sentinels.name },
    });
    const direct = new Redis(sentinels.primary.port);
    expect(await letThrough(limit + 30, '203.0.113.1')).toBe(limit);
    expect(await direct.exists('strata:requests:203.0.113.1')).toBe(1);
    const [taken, kept] = [await resetToken(1), await resetToken(2)];
    await direct.wait(1, 5000);
    direct.disconnect();

    await sentinels.failOver(async () => {
      // The first is of the password that both links are for; the replica does not receive this.
      expect(await reset(taken, 'first password 471')).toBe(204);
    });
    const promoted = new Redis(sentinels.replica.port);
    expect((await promoted.keys('strata:password_reset:*')).length).toBe(2);
    promoted.disconnect();

    expect(await reset(taken, 'second password 472')).toBe(401);
    expect(await reset(kept, 'third password 473')).toBe(401);
    await signIn(cluster.gateways[0]!.url, cluster.tenant.emails.viewer!, 'first password 471');
    // Each gateway counts alone for a moment after Redis did not answer it.
    let last = 100;
    await eventually(async () => {
      last += 1;
      expect(await letThrough(limit + 30, `203.0.113.${last}`)).toBe(limit);
    });
  });
});

describe('a cluster of three', () => {
  let nodes: Process[] = [];
  afterAll(() => Promise.all(nodes.map((node) => node.stop('SIGKILL'))));

  test('gateways count together, and a link resets a password once', async () => {
    nodes = await startRedisCluster();
    const [first, second] = nodes;
    const url = `redis://127.0.0.1:${first!.port},127.0.0.1:${second!.port}`;
    cluster = await startCluster({
      gateways: 2,
      environment: { ...shared, REDIS_URL: url, REDIS_CLUSTER: 'true' },
    });
    for (const last of [3, 4, 5, 6])
      expect(await letThrough(limit + 30, `203.0.113.${last}`)).toBe(limit);
    const token = await resetToken(1);
    const once = await Promise.all(
      ['a', 'b', 'c'].map((each) => reset(token, `password 47${each} ok`)),
    );
    expect(once.sort()).toEqual([204, 401, 401]);
    // What several clients have done has come to several of the nodes.
    const sizes = await Promise.all(
      nodes.map(async ({ port }) => {
        const client = new Redis(port);
        const size = await client.dbsize();
        client.disconnect();
        return size;
      }),
    );
    expect(sizes.filter((size) => size > 0).length).toBeGreaterThan(1);
  });
});

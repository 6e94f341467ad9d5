/**
 * Watch streams over gateways of their own process: ordered, gapless, resumed anywhere, ended with
 * the right to look.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { eventually, killed } from '../../support/cluster.ts';
import { watch } from '../../support/event-stream.ts';
import { soakTest } from '../../support/soak.ts';
import {
  Client,
  createTenant,
  memberPassword,
  signIn,
  type TenantFixture,
} from '../../support/strata.ts';
import { at as atGateway, cluster, third } from './cluster.ts';

let tenant: TenantFixture;
let other: TenantFixture;
beforeAll(async () => {
  const { platform } = cluster;
  tenant = await createTenant(platform.url, platform, 'Watched');
  other = await createTenant(platform.url, platform, 'Other watched');
});

const at = (gateway: number, by: Client = tenant.admin): Client => atGateway(gateway, by);
const path = (): string => `/tenants/${tenant.id}/config/watch`;
const write = async (gateway: number, value: number): Promise<number> => {
  const answer = await at(gateway).put(`/tenants/${tenant.id}/config/agents/watched`, {
    custom: { value },
  });
  if (answer.status > 201) throw new Error(`${answer.status} ${answer.text}`);
  return Number(answer.headers.get('x-config-revision'));
};
const expectGapless = (revisions: readonly number[], after: number): void =>
  expect(revisions).toEqual(Array.from(revisions, (_each, index) => after + index + 1));

describe('a tenant is watched', () => {
  test('concurrent writes through both gateways come once, in order, without a gap, on both', async () => {
    const streams = await Promise.all([0, 1].map((gateway) => watch(at(gateway), path())));
    const begin = (await streams[0]!.until(({ event }) => event === 'ready')).id!;
    const written = await Promise.all(
      Array.from({ length: 40 }, (_each, index) => write(index % 2, index)),
    );
    const last = Math.max(...written);
    for (const stream of streams) {
      await stream.until(({ id }) => id === last);
      const changes = stream.changes();
      expect(changes.map(({ id }) => id)).toEqual(changes.map(({ data }) => data.revision));
      expectGapless(
        changes.map(({ id }) => id!),
        begin,
      );
      expect(changes).toHaveLength(40);
      expect(changes.at(-1)!.data).toEqual({
        revision: last,
        config_type: 'agent_config',
        resource_id: 'watched',
        action: 'update',
        changed_by: expect.any(String),
        changed_at: expect.any(String),
      });
      stream.leave();
    }
    expect(streams[0]!.headers.get('content-type')).toBe('text/event-stream');
  });

  test('Last-Event-ID continues where a stream was left, over either gateway, for more than a page', async () => {
    const stream = await watch(at(0), path());
    const left = (await stream.until(({ event }) => event === 'ready')).id!;
    stream.leave();
    let last = 0;
    for (let value = 0; value < 120; value += 1) last = await write(value % 2, value);
    for (const gateway of [0, 1]) {
      const resumed = await watch(at(gateway), path(), left);
      await resumed.until(({ id }) => id === last);
      expectGapless(
        resumed.changes().map(({ id }) => id!),
        left,
      );
      expect(resumed.changes()).toHaveLength(120);
      resumed.leave();
    }
  });

  test('an id from the future is told to read everything again', async () => {
    const stream = await watch(at(0), path(), 1_000_000);
    const { id, data } = await stream.until(({ event }) => event === 'reset');
    expect(id).toBe(data.revision);
    const revision = await write(1, -1);
    expect((await stream.until(({ event }) => event === 'config.changed')).id).toBe(revision);
    stream.leave();
  });

  test('another tenant, its writes and its ids stay unseen', async () => {
    const refused = await watch(new Client(cluster.gateways[0]!.url, other.admin.token), path());
    expect([refused.status, refused.body?.detail.code]).toEqual([403, 'tenant_mismatch']);
    const stream = await watch(at(1, other.admin), `/tenants/${other.id}/config/watch`);
    await stream.until(({ event }) => event === 'ready');
    await write(0, 7);
    await at(0, other.admin).put(`/tenants/${other.id}/config/agents/mine`, {});
    await stream.until(({ event }) => event === 'config.changed');
    expect(stream.changes()).toHaveLength(1);
    expect(JSON.stringify(stream.events)).not.toContain(tenant.id);
    stream.leave();
  });
});

describe('the platform is watched', () => {
  test('global entries and service types, by key; a write that no one hears of is not sent', async () => {
    const stream = await watch(at(1, cluster.platform), '/config/watch');
    const begin = (await stream.until(({ event }) => event === 'ready')).id!;
    const platform = at(0, cluster.platform);
    await platform.put('/config/global/watched', { config_value: 1 });
    await platform.put('/config/global/watched?dry_run=true', { config_value: 2 });
    await platform.patch('/config/service-types/cloud_run/default', {
      monitoring_defaults: { watched: 1 },
    });
    await stream.until(({ id }) => id === begin + 2);
    expect(stream.changes().map(({ data }) => data)).toEqual([
      { revision: begin + 1, keys: ['global_watched'], changed_at: expect.any(String) },
      {
        revision: begin + 2,
        keys: ['service_type_cloud_run_default'],
        changed_at: expect.any(String),
      },
    ]);
    stream.leave();
  });

  test('where the changes are pruned, reset says so and the stream continues', async () => {
    await at(0, cluster.platform).put('/config/global/watched', { config_value: 3 });
    await cluster.database.query(`DELETE FROM strata.changes WHERE scope = 'platform'`);
    const stream = await watch(at(0, cluster.platform), '/config/watch', 1);
    const { id } = await stream.until(({ event }) => event === 'reset');
    await at(1, cluster.platform).put('/config/global/watched', { config_value: 4 });
    expect((await stream.until(({ event }) => event === 'config.changed')).id).toBe(id! + 1);
    stream.leave();
  });

  test('a tenant administrator may not', async () => {
    const refused = await at(0).get('/config/watch');
    expect([refused.status, refused.body.detail.code]).toEqual([403, 'insufficient_role']);
  });
});

describe('a stream ends', () => {
  const ended = async (stream: Awaited<ReturnType<typeof watch>>): Promise<unknown> => {
    const { data } = await stream.until(({ event }) => event === 'closed');
    await stream.ended;
    return data;
  };

  test('with its session, on every gateway', async () => {
    const url = cluster.gateways[0]!.url;
    const session = await signIn(url, tenant.emails.operator!, memberPassword);
    const streams = await Promise.all([0, 1].map((gateway) => watch(at(gateway, session), path())));
    expect((await session.post('/auth/logout')).status).toBe(204);
    for (const stream of streams)
      expect(await ended(stream)).toEqual({ code: 'auth_session_revoked' });
  });

  test('with the role', async () => {
    const { body } = await at(0).get(`/tenants/${tenant.id}/users`);
    const { user_id: id } = body.items.find(
      ({ email }: { email: string }) => email === tenant.emails.operator,
    );
    const stream = await watch(at(1, tenant.operator), path());
    expect(
      (await at(0).patch(`/tenants/${tenant.id}/users/${id}`, { roles: ['viewer'] })).status,
    ).toBe(200);
    expect(await ended(stream)).toEqual({ code: 'insufficient_role' });
    await at(0).patch(`/tenants/${tenant.id}/users/${id}`, { roles: ['operator'] });
  });

  test('before it begins where a caller has too many, and room returns', async () => {
    const streams = await Promise.all([1, 2, 3, 4].map(() => watch(at(0), path())));
    const refused = await at(0).get(path());
    expect([refused.status, refused.body.detail.code]).toEqual([429, 'rate_limited']);
    expect((await at(0, tenant.operator).get(path())).status).toBe(200);
    for (const stream of streams) stream.leave();
    await eventually(async () => expect((await at(0).get(path())).status).toBe(200));
  });

  soakTest('where its reader does not read, while the others continue', async () => {
    const { hostname, port } = new URL(cluster.gateways[0]!.url);
    const { id } = tenant;
    const from = await write(0, 0);
    await cluster.database.query(
      `INSERT INTO tenant_config.configuration_history SELECT $1, $2 + n, 'agent_config', repeat('x', 8000), 'update', 'someone', now(), null, null, null, null
       FROM generate_series(1, 4000) n`,
      [id, from],
    );
    await cluster.database.query(
      `UPDATE strata.revisions SET revision = revision + 4000 WHERE scope = 'tenant:' || $1`,
      [id],
    );
    const slow = connect(Number(port), hostname);
    slow.write(
      `GET ${path()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.admin.token}\r\nLast-Event-ID: ${from}\r\n\r\n`,
    );
    slow.on('error', () => {});
    const openStreams = async (): Promise<string | undefined> =>
      /^strata_watch_streams (\d+)$/m.exec((await at(0).get('/metrics')).text)?.[1];
    await eventually(async () => expect(await openStreams()).toBe('1'));
    const reading = await watch(at(0), path());
    const revision = await write(1, 1);
    await reading.until((event) => event.id === revision);
    reading.leave();
    await eventually(async () => expect(await openStreams()).toBe('0'), 120_000);
    slow.destroy();
  });

  soakTest(
    'with its gateway, which does not wait for readers; nothing is lost on the other',
    async () => {
      const [staying, leaving] = [0, 1];
      const stream = await watch(at(leaving), path());
      const begin = (await stream.until(({ event }) => event === 'ready')).id!;
      const stuck = connect(Number(new URL(cluster.gateways[leaving]!.url).port), '127.0.0.1');
      stuck.on('error', () => {});
      stuck.write(
        `GET ${path()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${tenant.admin.token}\r\nLast-Event-ID: 0\r\n\r\n`,
      );
      await once(stuck, 'readable');
      const unused = connect(Number(new URL(cluster.gateways[leaving]!.url).port), '127.0.0.1');
      unused.on('error', () => {});
      await once(unused, 'connect');
      const began = Date.now();
      await cluster.gateways[leaving]!.stop('SIGTERM');
      expect(cluster.gateways[leaving]!.process.exitCode).toBe(0);
      // Less than the 15 s after which readers that take nothing are cut off anyway.
      expect(Date.now() - began).toBeLessThan(14_000);
      await stream.ended;
      stuck.destroy();
      unused.destroy();

      cluster.gateways[leaving] = await cluster.start('gateway-2', ['gateway']);
      const last = await write(staying, 9);
      const resumed = await eventually(async () => {
        const stream = await watch(at(leaving), path(), begin);
        expect(stream.status).toBe(200);
        return stream;
      });
      await resumed.until(({ id }) => id === last);
      expectGapless(
        resumed.changes().map(({ id }) => id!),
        begin,
      );
      resumed.leave();
    },
  );

  test('with a killed gateway: resumed on the other without loss', async () => {
    const stream = await watch(new Client(third.url, tenant.admin.token), path());
    const begin = (await stream.until(({ event }) => event === 'ready')).id!;
    const first = await write(0, 1);
    await stream.until(({ id }) => id === first);
    await killed(third);
    await stream.ended;
    const last = await write(0, 2);
    const resumed = await watch(at(0), path(), stream.changes().at(-1)!.id);
    await resumed.until(({ id }) => id === last);
    expectGapless(
      [...stream.changes(), ...resumed.changes()].map(({ id }) => id!),
      begin,
    );
    resumed.leave();
  });
});

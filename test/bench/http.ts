/**
 * A cached configuration value over HTTP, through the gateway, beside what one could use instead.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/cluster.ts';
import { binary, freePort, guard } from '../support/servers.ts';
import { createTenant } from '../support/strata.ts';
import { load, type Target } from './load.ts';
import {
  keepCoresAwake,
  loadCore,
  pin,
  serverCore,
  startProgram,
  type Program,
} from './machine.ts';
import { alternate, type Comparison, type Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const connections = 64;

export const http: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  const letCoresHalt = keepCoresAwake();
  const peers: { stop: () => Promise<void> }[] = [];
  const program = async (...args: Parameters<typeof startProgram>): Promise<Program> => {
    const started = await startProgram(...args);
    peers.push(started);
    return started;
  };
  try {
    await stage.start(
      ['tenant-config', 'global-config', 'auth', 'audit', 'config-resolver'],
      loadCore,
      stage.clustered,
    );
    const gateway = await stage.start(['gateway'], serverCore, stage.clustered);
    const platform = await eventually(() => platformAdmin(gateway.url));
    const { id, admin } = await eventually(() => createTenant(gateway.url, platform, 'Bench'));
    const path = `/tenants/${id}/config/risk`;
    const { text: body, headers } = await admin.get(path);
    const get = (origin: string, headers: Record<string, string> = {}): Target => ({
      origin,
      requests: [{ path, headers }],
      expect: body,
    });
    const authorization = `Bearer ${admin.token}`;
    const strata = get(gateway.url, { authorization });
    const page = 'https://console.example';
    const forPages = await stage.start(['gateway'], serverCore, {
      ...stage.clustered,
      CORS_ORIGINS: page,
    });
    const plain = get(forPages.url, { authorization });
    const fromPage = get(forPages.url, { authorization, origin: page });
    const unchanged: Target = {
      ...get(forPages.url, { authorization, 'if-none-match': headers.get('etag')! }),
      expect: '',
      status: 304,
    };

    const limiting = await stage.start(['gateway'], serverCore, {
      ...stage.clustered,
      RATE_LIMIT_PER_MINUTE: '10000000',
    });
    const limited = get(limiting.url, { authorization });

    const bare = await program('test/bench/peers/bare.ts', [body], serverCore);
    await program(
      'test/bench/peers/moleculer-web.ts',
      [
        'service',
        stage.bus.url,
        JSON.stringify({
          tenant_id: id,
          document: JSON.parse(body) as unknown,
          revision: Number(headers.get('x-config-revision')),
          updated_by: headers.get('x-updated-by'),
          updated_at: new Date(headers.get('last-modified')!).toISOString(),
        }),
      ],
      loadCore,
    );
    const moleculer = await program(
      'test/bench/peers/moleculer-web.ts',
      ['gateway', stage.bus.url],
      serverCore,
    );
    const etcd = await startEtcd(path, body);
    peers.push(etcd);

    const what = 'GET of a cached configuration value, authenticated, through the gateway';
    const beside = async (
      peer: string,
      target: Target,
      atLeast: number,
      asked = strata,
      how = '',
    ): Promise<Comparison> => {
      // Short turns and more of them: the machine changes its pace within seconds.
      const perSecond = (each: Target) => async (): Promise<number> =>
        (await load(each, { connections, seconds: 1 })).perSecond;
      return {
        what: `${what}${how}`,
        peer,
        unit: '/s',
        goal: { atLeast },
        ...(await alternate(rounds * seconds, perSecond(asked), perSecond(target))),
      };
    };
    const burst = async (): Promise<Pick<Comparison, 'strata' | 'baseline'>> => {
      const args = [gateway.url, path, authorization, String(rounds)];
      const { lines } = await program('test/bench/peers/burst.ts', args, loadCore);
      const { value } = await lines.next();
      return JSON.parse(value as string) as Pick<Comparison, 'strata' | 'baseline'>;
    };
    return {
      rows: [
        await beside(
          'the same bytes from a bare Fastify route, without authentication',
          get(bare.said),
          0.7,
        ),
        await beside(
          'moleculer-web calling the same action over NATS, the value in the memory of its service’s node',
          get(moleculer.said),
          3,
        ),
        await beside('etcd’s JSON gateway, one key of the same size', etcd.target, 3.5),
        await beside('without it', plain, 0.9, unchanged, ', with If-None-Match: 304'),
        await beside('without it', plain, 0.9, fromPage, ', with an Origin'),
        await beside('without it', plain, 0.2, limited, ', with a rate limit, counted in Redis'),
        {
          what: 'the same when no memory has it, asked for over 400 connections at once, p99',
          peer: 'one such read',
          unit: 'ms',
          goal: { atMost: 12 },
          ...(await burst()),
        },
      ],
    };
  } finally {
    letCoresHalt();
    for (const peer of peers) await peer.stop();
    await stage.stop();
  }
};

/** One key, with a value as long as the body. */
async function startEtcd(
  key: string,
  body: string,
): Promise<{ target: Target; stop: () => Promise<void> }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'strata-etcd-'));
  const [client, peer] = [
    `http://127.0.0.1:${await freePort()}`,
    `http://127.0.0.1:${await freePort()}`,
  ];
  const child = spawn(
    binary('etcd', 'etcd-server'),
    [
      '--data-dir',
      dataDir,
      '--listen-client-urls',
      client,
      '--advertise-client-urls',
      client,
      '--listen-peer-urls',
      peer,
      '--initial-advertise-peer-urls',
      peer,
      '--initial-cluster',
      `default=${peer}`,
      '--log-level',
      'error',
    ],
    { stdio: 'ignore' },
  );
  const dismiss = guard(child.pid!, 'KILL', dataDir);
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const ask = async (call: string, sent: unknown): Promise<string> =>
    (await fetch(`${client}/v3/kv/${call}`, { method: 'POST', body: JSON.stringify(sent) })).text();
  await eventually(() => ask('put', { key: base64(key), value: base64(body) }));
  pin(child.pid!, serverCore);
  return {
    target: {
      origin: client,
      requests: [
        { method: 'POST', path: '/v3/kv/range', body: JSON.stringify({ key: base64(key) }) },
      ],
      expect: await ask('range', { key: base64(key) }),
    },
    async stop() {
      child.kill('SIGKILL');
      dismiss();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

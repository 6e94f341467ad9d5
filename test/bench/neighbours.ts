/**
 * What a tenant waits for while another one asks for more than its share of everything: 99 of a
 * hundred of its reads and of its writes, beside the same with nobody else, and `/healthz`.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { appendEvents } from '../../services/audit/stores/chains.ts';
import { createTenant, type Client, type TenantFixture } from '../support/strata.ts';
import { loadCore, serverCore, startProgram } from './machine.ts';
import type { Flood } from './peers/flood.ts';
import type { Comparison, Fact, Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

type Asked = Omit<Flood, 'origin' | 'token'>;

/** Of each kind so many at once as no tenant may have, and again as often as one client can. */
const floods = ({ id }: TenantFixture, pending: string): Readonly<Record<string, Asked>> => {
  const config = `/tenants/${id}/config`;
  return {
    '12,000 held GETs': {
      method: 'GET',
      path: `/tenants/${id}/approvals/${pending}?wait=30`,
      atOnce: 12_000,
      perSecond: 1000,
    },
    '10,000 streams': {
      method: 'GET',
      path: `${config}/effective/watch?agent_type=bench`,
      atOnce: 10_000,
      perSecond: 1000,
    },
    '150 invitations a second': {
      method: 'POST',
      path: `/tenants/${id}/users`,
      body: '{"email":"invited-{n}@bench.example","roles":["viewer"]}',
      atOnce: 60,
      perSecond: 150,
    },
    '60 verifications at once': {
      method: 'GET',
      path: `/audit/verify?tenant_id=${id}`,
      atOnce: 60,
      perSecond: 60,
    },
    '200 writes a second above its quota': {
      method: 'PUT',
      path: `${config}/agents/agent-{n}`,
      body: '{}',
      atOnce: 60,
      perSecond: 200,
    },
  };
};

/** Events of a year, so that there is something to verify. */
const longChain = 20_000;

/** Writes events of the past into a tenant's chain. */
export async function recordEvents(url: string, tenant_id: string, count: number): Promise<void> {
  const db = await new DataSource({ type: 'postgres', url }).initialize();
  for (let done = 0; done < count; done += 500) {
    const events = Array.from({ length: 500 }, (_each, index) => ({
      id: randomUUID(),
      action: 'config.agent.updated',
      actor: { type: 'user' as const, id: randomUUID() },
      tenant_id,
      target: `agent-${index}`,
      payload: { revision: done + index, changes: [{ path: '/timeout', before: 1, after: 2 }] },
      request_id: randomUUID(),
      occurred_at: new Date().toISOString(),
    }));
    await db.transaction((manager) => appendEvents(manager, events));
  }
  await db.destroy();
}

interface Waits {
  readonly read: number;
  readonly write: number;
  readonly healthMs: number;
}

const p99 = (times: readonly number[]): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)]!;

/** 100 reads and 20 writes a second, each as a caller who knows nothing of the others. */
async function ask(url: string, { id, admin }: TenantFixture, seconds: number): Promise<Waits> {
  const read: number[] = [];
  const write: number[] = [];
  const health: number[] = [];
  const under: Promise<void>[] = [];
  const time = async (into: number[], work: () => ReturnType<Client['get']>): Promise<void> => {
    const began = performance.now();
    const { status, text } = await work();
    into.push(performance.now() - began);
    if (status !== 200) throw new Error(`${status} ${text}`);
  };
  for (let tick = 0; tick < seconds * 100; tick += 1) {
    under.push(time(read, () => admin.get(`/tenants/${id}/config/effective?agent_type=bench`)));
    if (tick % 5 === 0)
      under.push(
        time(write, () =>
          admin.patch(`/tenants/${id}/config/risk`, {
            global_settings: { max_concurrent_automations: (tick % 50) + 1 },
          }),
        ),
      );
    if (tick % 10 === 0) under.push(time(health, () => admin.get('/healthz')));
    await delay(10);
  }
  await Promise.all(under);
  return { read: p99(read), write: p99(write), healthMs: Math.max(...health) };
}

export const neighbours: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const { url } = await stage.start([], serverCore, {
      ...stage.alone,
      DOCUMENTS_PER_TENANT: '100',
    });
    const platform = await platformAdmin(url);
    const greedy = await createTenant(url, platform, 'Greedy');
    const other = await createTenant(url, platform, 'Bench');
    await recordEvents(stage.database.url, greedy.id, longChain);
    const asked = { action: 'scale', risk_level: 'high', title: 'Scale' };
    const pending = await greedy.admin.post(`/tenants/${greedy.id}/approvals`, asked);
    await ask(url, other, seconds * 2);

    const rows: Comparison[] = [];
    const facts: Fact[] = [];
    for (const [what, requests] of Object.entries(
      floods(greedy, (pending.body as { id: string }).id),
    )) {
      const alone: Waits[] = [];
      const beside: Waits[] = [];
      const statuses: string[] = [];
      for (let round = 0; round < rounds; round += 1) {
        alone.push(await ask(url, other, seconds));
        const flood: Flood = { origin: url, token: greedy.admin.token!, ...requests };
        const program = await startProgram(
          'test/bench/peers/flood.ts',
          [JSON.stringify(flood)],
          loadCore,
        );
        await delay(1000);
        beside.push(await ask(url, other, seconds));
        process.kill(program.pid);
        statuses.push(((await program.lines.next()) as { value: string }).value);
        await program.stop();
        // Ten thousand connections are closed meanwhile.
        await delay(5000);
      }
      const row = (kind: 'read' | 'write'): Comparison => ({
        what: `a tenant's ${kind}s beside another's ${what}, p99`,
        peer: 'alone',
        unit: 'ms',
        strata: beside.map((waits) => waits[kind]),
        baseline: alone.map((waits) => waits[kind]),
        goal: { atMost: 1.5 },
      });
      rows.push(row('read'), row('write'));
      facts.push(
        {
          what: `the longest that /healthz took beside ${what}`,
          result: `${Math.max(...beside.map(({ healthMs }) => healthMs)).toFixed(0)} ms`,
        },
        { what: `answers to ${what}`, result: statuses.at(-1)! },
      );
    }
    return { rows, facts };
  } finally {
    await stage.stop();
  }
};

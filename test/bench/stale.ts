/**
 * Reads that are older than an answered write, of three processes that read from memory: Strata's,
 * and Redis' client-side caching.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { eventually } from '../support/cluster.ts';
import { createTenant } from '../support/strata.ts';
import { machineMs } from './bare-node.ts';
import { bothCores, loadCore, serverCore, startProgram, type Program } from './machine.ts';
import type { Answered, Evaluated } from './peers/stale-readers.ts';
import type { Group } from './report.ts';
import { platformAdmin, startStage } from './stage.ts';

const processes = 3;
/** Until readers have the new value in memory again. */
const pauseMs = 5;

/**
 * Writes one after the other, and asks the readers what they had read. `write` resolves to the
 * revision once it is answered.
 */
async function evaluatedBy(
  readers: readonly Program[],
  writes: number,
  write: (turn: number) => Promise<number>,
): Promise<Evaluated> {
  const answered: [number, number][] = [];
  for (let turn = 1; turn <= writes; turn += 1) {
    const revision = await write(turn);
    answered.push([revision, machineMs()]);
    await delay(pauseMs);
  }
  const body = JSON.stringify(answered satisfies Answered);
  const all = await Promise.all(
    readers.map(async ({ said }) => {
      const response = await fetch(said, { method: 'POST', body });
      return (await response.json()) as Evaluated;
    }),
  );
  return all.reduce((sum, each) => ({
    reads: sum.reads + each.reads,
    fromMemory: sum.fromMemory + each.fromMemory,
    stale: sum.stale + each.stale,
    latestMs: Math.max(sum.latestMs, each.latestMs),
  }));
}

function metricOf({ reads, fromMemory, stale, latestMs }: Evaluated): string {
  if (fromMemory < reads * 0.9)
    throw new Error(`${fromMemory} of ${reads} reads were from memory, so that they show nothing`);
  const late = stale > 0 ? `, the last ${latestMs.toFixed(2)} ms after the answer` : '';
  return `${stale} of ${(reads / 1e6).toFixed(2)} M${late}`;
}

export const stale: Group = async ({ rounds, seconds }) => {
  const writes = rounds * seconds * 100;
  const stage = await startStage();
  const programs: Program[] = [];
  const startReaders = async (kind: string, url: string, subject: string): Promise<Program[]> => {
    const readers: Program[] = [];
    for (let each = 0; each < processes; each += 1) {
      const args = [kind, url, `stale-reader-${each}`, subject];
      readers.push(await startProgram('test/bench/peers/stale-readers.ts', args, bothCores));
    }
    programs.push(...readers);
    return readers;
  };
  try {
    const roles = ['tenant-config', 'global-config', 'auth', 'audit', 'config-resolver'];
    await stage.start(roles, loadCore, stage.clustered);
    const gateway = await stage.start(['gateway'], serverCore, stage.clustered);
    const platform = await eventually(() => platformAdmin(gateway.url));
    const { id, admin } = await eventually(() => createTenant(gateway.url, platform, 'Bench'));
    const path = `/tenants/${id}/config/risk`;
    const ofStrata = await startReaders('strata', stage.bus.url, id);
    const found = await evaluatedBy(ofStrata, writes, async (turn) => {
      const limits = { max_concurrent_automations: turn % 1000 };
      const { status, headers, text } = await admin.put(path, { global_settings: limits });
      if (status !== 200) throw new Error(text);
      return Number(headers.get('x-config-revision'));
    });
    if (found.stale > 0) throw new Error(`${found.stale} reads were stale`);
    const document = (await admin.get(path)).body as unknown;
    for (const reader of ofStrata) await reader.stop();

    const redisUrl = stage.clustered.REDIS_URL!;
    const writer = new Redis(redisUrl);
    const set = async (revision: number): Promise<number> => {
      await writer.set(path, JSON.stringify({ revision, document }));
      return revision;
    };
    await set(0);
    const ofRedis = await startReaders('redis', redisUrl, path);
    const theirs = await evaluatedBy(ofRedis, writes, set);
    writer.disconnect();
    return {
      rows: [],
      facts: [
        {
          what: `stale reads of ${processes} processes that read without a pause, ${writes} writes: Strata / Redis’ client-side caching (RESP3 tracking, node-redis)`,
          result: `${metricOf(found)} / ${metricOf(theirs)}`,
        },
      ],
    };
  } finally {
    for (const program of programs) await program.stop();
    await stage.stop();
  }
};

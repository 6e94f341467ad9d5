/**
 * Writes increasing numbers, reads them on every gateway, and checks what was seen. An operation is its node, when it began and
 * ended, its value. What must hold: a read that began after a write was answered is not older; on one node values do not go back
 * between reads that follow each other; nothing is read that was never written. Answers marked X-Config-Stale are told apart.
 */
import { performance } from 'node:perf_hooks';
import { Client, type Running } from './strata.ts';
import type { Cluster } from './cluster.ts';

export interface Operation { readonly register: string; readonly node: string; readonly began: number; readonly ended: number; readonly value: number; readonly stale: boolean }
export interface Observed { readonly writes: Operation[]; readonly attempted: Map<string, number>; readonly reads: Operation[]; readonly errors: Map<string, number>; readonly slowestWriteMs: number }

interface Register {
  readonly name: string; readonly path: string; readonly platform?: true;
  readonly body: (value: number) => unknown; readonly value: (body: never) => number | undefined;
}

const registers = (tenantId: string): readonly Register[] => [
  {
    name: 'risk', path: `/tenants/${tenantId}/config/risk`, body: (value) => ({ service_overrides: { cloud_run: { risk_register: value } } }),
    value: (body: { service_overrides: { cloud_run: { risk_register?: number } } }) => body.service_overrides.cloud_run?.risk_register,
  },
  {
    name: 'agent', path: `/tenants/${tenantId}/config/agents/register`, body: (value) => ({ custom: { value } }),
    value: (body: { custom?: { value: number } }) => body.custom?.value,
  },
  {
    name: 'instance', path: `/tenants/${tenantId}/services/register`, body: (value) => ({ service_type: 'cloud_run', custom_thresholds: { value } }),
    value: (body: { custom_thresholds?: { value: number } }) => body.custom_thresholds?.value,
  },
  {
    name: 'global', path: '/config/global/register', platform: true, body: (value) => ({ config_value: value, is_public: true }),
    value: (body: { config_value: number }) => body.config_value,
  },
];

/** Runs until `during` has ended and `afterMs` more. Each register has one writer and, on every gateway, one reader, which also reads it merged. */
export async function observe(cluster: Cluster, during: () => Promise<void>, { afterMs = 1500 }: { afterMs?: number } = {}): Promise<Observed> {
  const { tenant, platform, gateways } = cluster;
  const writes: Operation[] = [];
  const reads: Operation[] = [];
  const attempted = new Map<string, number>();
  const errors = new Map<string, number>();
  const state = { done: false, slowest: 0 };
  const failed = (what: string): void => { errors.set(what, (errors.get(what) ?? 0) + 1); };
  const alive = (gateway: Running): boolean => gateway.process.exitCode === null && gateway.process.signalCode === null;
  const pause = (): Promise<void> => new Promise((resolve) => { setTimeout(resolve, 5); });

  const writer = async (register: Register): Promise<void> => {
    // From the clock, so that values go on increasing from one observation to the next.
    for (let value = Date.now(); !state.done; value += 1) {
      const gateway = gateways.filter(alive)[value % gateways.filter(alive).length]!;
      const began = performance.now();
      attempted.set(register.name, value);
      try {
        const answer = await new Client(gateway.url, (register.platform ? platform : tenant.admin).token).put(register.path, register.body(value));
        const ended = performance.now();
        if (answer.status < 300) {
          writes.push({ register: register.name, node: gateway.url, began, ended, value, stale: false });
          state.slowest = Math.max(state.slowest, ended - began);
        } else failed(`write ${answer.status} ${answer.body?.detail.code}`);
      } catch (error) {
        failed(`write ${(error as Error).message}`);
      }
      await pause();
    }
  };
  const reader = async (register: Register, gateway: Running): Promise<void> => {
    const client = new Client(gateway.url, tenant.admin.token);
    for (let turn = 0; !state.done && alive(gateway); turn += 1) {
      const merged = turn % 3 === 2;
      const path = merged ? `/tenants/${tenant.id}/config/effective?agent_type=register&service_id=register&service_type=cloud_run` : register.path;
      const began = performance.now();
      try {
        const { status, body, headers } = await client.get(path);
        const ended = performance.now();
        if (status === 404) continue;
        if (status !== 200) {
          failed(`read ${status} ${body?.detail.code}`);
          continue;
        }
        const value = merged ? mergedValue(register.name, body.values) : register.value(body as never);
        if (value !== undefined) reads.push({ register: register.name, node: gateway.url, began, ended, value, stale: headers.get('x-config-stale') === 'true' });
      } catch (error) {
        failed(`read ${(error as Error).message}`);
      } finally {
        await pause();
      }
    }
  };
  const all = registers(tenant.id);
  const work = [...all.map(writer), ...gateways.flatMap((gateway) => all.map((register) => reader(register, gateway)))];
  try {
    await during();
    await new Promise((resolve) => { setTimeout(resolve, afterMs); });
  } finally {
    state.done = true;
    await Promise.all(work);
  }
  return { writes, attempted, reads, errors, slowestWriteMs: state.slowest };
}

function mergedValue(register: string, values: Record<string, unknown>): number | undefined {
  const found = { risk: values.risk_register, agent: (values.custom as { value?: number } | undefined)?.value, instance: (values.custom_thresholds as { value?: number } | undefined)?.value }[register];
  return found as number | undefined;
}

/** Every violation, in words; none where the history is coherent. */
export function violations({ writes, attempted, reads }: Observed): string[] {
  const found: string[] = [];
  const of = (list: readonly Operation[], register: string): Operation[] => list.filter((operation) => operation.register === register);
  for (const register of new Set(reads.map((read) => read.register))) {
    // The newest value answered by any moment, by when the answer came.
    const answered = of(writes, register).toSorted((a, b) => a.ended - b.ended);
    const fresh = of(reads, register).filter((read) => !read.stale).toSorted((a, b) => a.began - b.began);
    let next = 0;
    let newest = 0;
    for (const read of fresh) {
      while (next < answered.length && answered[next]!.ended <= read.began) newest = Math.max(newest, answered[next++]!.value);
      if (read.value < newest) found.push(`${register} on ${read.node}: read ${read.value} after ${newest} was answered (${Math.round(read.began)})`);
      if (read.value > (attempted.get(register) ?? 0)) found.push(`${register} on ${read.node}: read ${read.value}, which was never written`);
    }
    for (const node of new Set(fresh.map((read) => read.node))) {
      let highest = 0;
      let ended = -Infinity;
      for (const read of fresh.filter((each) => each.node === node).toSorted((a, b) => a.ended - b.ended)) {
        if (read.began >= ended && read.value < highest) found.push(`${register} on ${node}: went back from ${highest} to ${read.value}`);
        if (read.value > highest) [highest, ended] = [read.value, read.ended];
      }
    }
  }
  return found;
}

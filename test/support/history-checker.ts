/**
 * Writes numbers that no other write has, reads them on every gateway, and checks what was seen. An operation is its node, when it
 * began and ended, its value and its revision. What must hold: a read that began after a write was answered is not of an older
 * revision; on one node revisions do not go back between reads that follow each other; a revision has one value; nothing is read
 * that was never written. Answers marked X-Config-Stale are told apart. Values alone would not do: a write that was answered with
 * a time-out may be committed after its successor.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlive, type Cluster } from './cluster.ts';
import { Client, type Answer, type Running } from './strata.ts';

export interface Operation {
  readonly register: string;
  readonly node: string;
  readonly began: number;
  readonly ended: number;
  readonly value: number;
  readonly revision: number | undefined;
  readonly stale: boolean;
}
export interface Observed {
  readonly writes: Operation[];
  readonly attempted: Map<string, number>;
  readonly reads: Operation[];
  readonly errors: Map<string, number>;
  readonly slowestWriteMs: number;
  /** The longest that anyone waited for an answer or an error. */
  readonly slowestMs: number;
}

interface Register {
  readonly name: string;
  readonly path: string;
  readonly platform?: true;
  readonly body: (value: number) => unknown;
  readonly value: (body: never) => number | undefined;
}

const registers = (tenantId: string): readonly Register[] => [
  {
    name: 'risk',
    path: `/tenants/${tenantId}/config/risk`,
    body: (value) => ({ service_overrides: { cloud_run: { risk_register: value } } }),
    value: (body: { service_overrides: { cloud_run: { risk_register?: number } } }) =>
      body.service_overrides.cloud_run?.risk_register,
  },
  {
    name: 'agent',
    path: `/tenants/${tenantId}/config/agents/register`,
    body: (value) => ({ custom: { value } }),
    value: (body: { custom?: { value: number } }) => body.custom?.value,
  },
  {
    name: 'instance',
    path: `/tenants/${tenantId}/services/register`,
    body: (value) => ({ service_type: 'cloud_run', custom_thresholds: { value } }),
    value: (body: { custom_thresholds?: { value: number } }) => body.custom_thresholds?.value,
  },
  {
    name: 'global',
    path: '/config/global/register',
    platform: true,
    body: (value) => ({ config_value: value, is_public: true }),
    value: (body: { config_value: number }) => body.config_value,
  },
];

/**
 * Runs until `during` has ended and `afterMs` more. Each register has one writer and, on every gateway, also one that joins
 * meanwhile, one reader, which also reads it merged.
 */
export async function observe(
  cluster: Cluster,
  during: () => Promise<void>,
  { afterMs = 1500 }: { afterMs?: number } = {},
): Promise<Observed> {
  const { tenant, platform, gateways, suspended } = cluster;
  const writes: Operation[] = [];
  const reads: Operation[] = [];
  const attempted = new Map<string, number>();
  const errors = new Map<string, number>();
  const state = { done: false, slowestWriteMs: 0, slowestMs: 0 };
  const failed = (what: string): void => {
    errors.set(what, (errors.get(what) ?? 0) + 1);
  };

  /** How it went and how long it took, an error's time included. */
  async function timed(
    what: string,
    work: () => Promise<Answer>,
    take: (answer: Answer, began: number, ended: number) => void,
  ): Promise<void> {
    const began = performance.now();
    try {
      const answer = await work();
      if (answer.status < 300) take(answer, began, performance.now());
      else if (answer.status !== 404)
        failed(`${what} ${answer.status} ${answer.body?.detail.code}`);
    } catch (error) {
      failed(`${what} ${(error as Error).message}`);
    }
    state.slowestMs = Math.max(state.slowestMs, performance.now() - began);
    await delay(5);
  }

  const writer = async (register: Register, index: number): Promise<void> => {
    // From the clock, so that values go on increasing from one observation to the next.
    for (let value = Date.now(); !state.done; value += 1) {
      const well = gateways.filter((gateway) => isAlive(gateway) && !suspended.has(gateway));
      // Each writer elsewhere, so that a fault of one gateway does not end all writes.
      const { url } = well[(value + index) % well.length]!;
      attempted.set(register.name, value);
      await timed(
        'write',
        () =>
          new Client(url, (register.platform ? platform : tenant.admin).token).put(
            register.path,
            register.body(value),
          ),
        (answer, began, ended) => {
          writes.push({
            register: register.name,
            node: url,
            began,
            ended,
            value,
            revision: revisionOf(answer),
            stale: false,
          });
          state.slowestWriteMs = Math.max(state.slowestWriteMs, ended - began);
        },
      );
    }
  };
  const reader = async (register: Register, gateway: Running): Promise<void> => {
    const client = new Client(gateway.url, tenant.admin.token);
    for (let turn = 0; !state.done && isAlive(gateway); turn += 1) {
      const merged = turn % 3 === 2;
      const path = merged
        ? `/tenants/${tenant.id}/config/effective?agent_type=register&service_id=register&service_type=cloud_run`
        : register.path;
      await timed(
        'read',
        () => client.get(path),
        (answer, began, ended) => {
          const { body, headers } = answer;
          const value = merged
            ? mergedValue(register.name, body.values)
            : register.value(body as never);
          if (value === undefined) return;
          reads.push({
            register: register.name,
            node: gateway.url,
            began,
            ended,
            value,
            revision: revisionOf(answer),
            stale: headers.get('x-config-stale') === 'true',
          });
        },
      );
    }
  };
  const all = registers(tenant.id);
  const readers = new Map<Running, Promise<unknown>>();
  const readEverywhere = async (): Promise<void> => {
    while (!state.done) {
      for (const gateway of gateways)
        if (!readers.has(gateway))
          readers.set(gateway, Promise.all(all.map((register) => reader(register, gateway))));
      await delay(20);
    }
    await Promise.all(readers.values());
  };
  const work = [...all.map(writer), readEverywhere()];
  try {
    await during();
    await delay(afterMs);
  } finally {
    state.done = true;
    await Promise.all(work);
  }
  return { writes, attempted, reads, errors, ...state };
}

function mergedValue(register: string, values: Record<string, unknown>): number | undefined {
  const found = {
    risk: values.risk_register,
    agent: (values.custom as { value?: number } | undefined)?.value,
    instance: (values.custom_thresholds as { value?: number } | undefined)?.value,
  }[register];
  return found as number | undefined;
}

/** Undefined for merged values, whose layers have revisions of their own. */
function revisionOf({ headers }: Answer): number | undefined {
  const revision = headers.get('x-config-revision');
  return revision === null ? undefined : Number(revision);
}

type Placed = Operation & { readonly revision: number };

/** Every violation, in words; none where the history is coherent. */
export function violations({ writes, attempted, reads }: Observed): string[] {
  const found: string[] = [];
  for (const register of new Set(reads.map((read) => read.register))) {
    const all = [...writes, ...reads].filter((operation) => operation.register === register);
    const revisions = new Map<number, number>();
    const values = new Map<number, number>();
    for (const { node, value, revision } of all) {
      if (value > (attempted.get(register) ?? 0))
        found.push(`${register} on ${node}: read ${value}, which was never written`);
      if (revision === undefined) continue;
      revisions.set(value, revision);
      if ((values.get(revision) ?? value) !== value)
        found.push(
          `${register} on ${node}: ${value} under revision ${revision}, which is ${values.get(revision)}`,
        );
      values.set(revision, value);
    }
    // A merged value that no one read by itself, from a write without an answer, has no place in the order.
    const placed = (list: readonly Operation[]): Placed[] =>
      list
        .filter((operation) => operation.register === register && !operation.stale)
        .map((operation) => ({
          ...operation,
          revision: operation.revision ?? revisions.get(operation.value),
        }))
        .filter((operation): operation is Placed => operation.revision !== undefined);
    const fresh = placed(reads);
    // The newest revision answered by any moment, by when the answer came.
    const answered = placed(writes).toSorted((a, b) => a.ended - b.ended);
    let next = 0;
    let newest = 0;
    for (const read of fresh.toSorted((a, b) => a.began - b.began)) {
      while (next < answered.length && answered[next]!.ended <= read.began)
        newest = Math.max(newest, answered[next++]!.revision);
      if (read.revision < newest)
        found.push(
          `${register} on ${read.node}: read revision ${read.revision} after ${newest} was answered (${Math.round(read.began)})`,
        );
    }
    for (const node of new Set(fresh.map((read) => read.node))) {
      let highest = 0;
      let ended = -Infinity;
      for (const read of fresh
        .filter((each) => each.node === node)
        .toSorted((a, b) => a.ended - b.ended)) {
        if (read.began >= ended && read.revision < highest)
          found.push(
            `${register} on ${node}: went back from revision ${highest} to ${read.revision}`,
          );
        if (read.revision > highest) [highest, ended] = [read.revision, read.ended];
      }
    }
  }
  return found;
}

/**
 * Clients that write and read all the time on every gateway, and a checker of what they saw.
 *
 * Each write of a register carries a number that no other write has. An operation is recorded with its node, when it began and ended,
 * its value and its revision. What must hold:
 *
 * | Rule | In words |
 * |---|---|
 * | no stale read | a read that began after a write was answered is not of an older revision |
 * | no step back | on one node, of two reads that follow each other the second is not of an older revision |
 * | one value a revision | a revision has the same value wherever it is read |
 * | no invention | nothing is read that was never written |
 *
 * Answers that are marked X-Config-Stale are not judged. Revisions are compared, not values: a write that was answered with a time-out
 * may be committed after its successor.
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
  /** Answered writes. */
  readonly writes: Operation[];
  /** By register: the last value that was sent, answered or not. */
  readonly attempted: Map<string, number>;
  readonly reads: Operation[];
  /** What clients were told instead of an answer, and how often. */
  readonly errors: Map<string, number>;
  readonly slowestWriteMs: number;
  /** The longest that anyone waited for an answer or an error. */
  readonly slowestMs: number;
}

/** A number that is kept in one place of the configuration. */
interface Register {
  readonly name: string;
  readonly path: string;
  /** Written by the platform administrator, else by the tenant's. */
  readonly platform?: true;
  readonly body: (value: number) => unknown;
  readonly value: (body: Answer['body']) => number | undefined;
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
 * Lets clients write and read until `during` has ended and for `afterMs` more. Each register has one writer, and one reader on every
 * gateway, those included that join meanwhile. Every third read is of the effective configuration, which merges all registers.
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
  const countError = (what: string): void => {
    errors.set(what, (errors.get(what) ?? 0) + 1);
  };

  /** Sends one request: `take` records its answer; errors are counted, and their time too. */
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
        countError(`${what} ${answer.status} ${answer.body?.detail.code}`);
    } catch (error) {
      countError(`${what} ${(error as Error).message}`);
    }
    state.slowestMs = Math.max(state.slowestMs, performance.now() - began);
    await delay(5);
  }

  const writer = async (register: Register, index: number): Promise<void> => {
    // Values begin at the clock, so that they go on increasing from one observation to the next.
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
          const value = merged ? mergedValue(register.name, body.values) : register.value(body);
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

/** Undefined for the effective configuration, whose layers have revisions of their own. */
function revisionOf({ headers }: Answer): number | undefined {
  const revision = headers.get('x-config-revision');
  return revision === null ? undefined : Number(revision);
}

/** An operation whose revision is known. */
type Placed = Operation & { readonly revision: number };

/** Every violation of the rules above, in words; none where the history is coherent. */
export function violations({ writes, attempted, reads }: Observed): string[] {
  const registerNames = new Set(reads.map((read) => read.register));
  return [...registerNames].flatMap((register) => {
    const isOf = (operation: Operation): boolean => operation.register === register;
    const ownWrites = writes.filter(isOf);
    const ownReads = reads.filter(isOf);
    const all = [...ownWrites, ...ownReads];
    const revisions = revisionsByValue(all);
    const freshReads = place(ownReads, revisions);
    return [
      ...inventions(all, attempted.get(register) ?? 0),
      ...doubleValues(all),
      ...staleReads(freshReads, place(ownWrites, revisions)),
      ...stepsBack(freshReads),
    ];
  });
}

const revisionsByValue = (all: readonly Operation[]): Map<number, number> =>
  new Map(
    all.flatMap(({ value, revision }) => (revision === undefined ? [] : [[value, revision]])),
  );

/**
 * The operations with their revisions, without those marked stale. A merged value has the revision that it was written or read under
 * by itself; one from a write without an answer that nobody read by itself is passed over.
 */
const place = (
  operations: readonly Operation[],
  revisions: ReadonlyMap<number, number>,
): Placed[] =>
  operations
    .filter(({ stale }) => !stale)
    .flatMap((operation) => {
      const revision = operation.revision ?? revisions.get(operation.value);
      return revision === undefined ? [] : [{ ...operation, revision }];
    });

/** Values above the last one that was sent: values only increase. */
const inventions = (all: readonly Operation[], lastSent: number): string[] =>
  all
    .filter(({ value }) => value > lastSent)
    .map(
      ({ register, node, value }) =>
        `${register} on ${node}: read ${value}, which was never written`,
    );

/** Revisions under which two values were seen. */
function doubleValues(all: readonly Operation[]): string[] {
  const found: string[] = [];
  const values = new Map<number, number>();
  for (const { register, node, value, revision } of all) {
    if (revision === undefined) continue;
    const known = values.get(revision) ?? value;
    if (known !== value)
      found.push(`${register} on ${node}: ${value} under revision ${revision}, which is ${known}`);
    values.set(revision, value);
  }
  return found;
}

/** Reads that began after a newer revision was answered to its writer. */
function staleReads(reads: readonly Placed[], writes: readonly Placed[]): string[] {
  const found: string[] = [];
  const answered = writes.toSorted((a, b) => a.ended - b.ended);
  let next = 0;
  let newest = 0;
  for (const read of reads.toSorted((a, b) => a.began - b.began)) {
    while (next < answered.length && answered[next]!.ended <= read.began) {
      newest = Math.max(newest, answered[next]!.revision);
      next += 1;
    }
    if (read.revision < newest)
      found.push(
        `${read.register} on ${read.node}: read revision ${read.revision} after ${newest} was answered (${Math.round(read.began)})`,
      );
  }
  return found;
}

/** Reads of one node that are of an older revision than one that had ended when they began. */
function stepsBack(reads: readonly Placed[]): string[] {
  const found: string[] = [];
  for (const [node, ofNode] of Map.groupBy(reads, (read) => read.node)) {
    let highest = 0;
    let ended = -Infinity;
    for (const read of ofNode.toSorted((a, b) => a.ended - b.ended)) {
      if (read.began >= ended && read.revision < highest)
        found.push(
          `${read.register} on ${node}: went back from revision ${highest} to ${read.revision}`,
        );
      if (read.revision > highest) {
        highest = read.revision;
        ended = read.ended;
      }
    }
  }
  return found;
}

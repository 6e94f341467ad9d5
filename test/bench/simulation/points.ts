/**
 * What was measured, for whoever compares the simulation with it: points from a report of the
 * bench, and costs as a table.
 */
import type { Fact } from '../report.ts';
import type { Costs } from './visible-write.ts';
import type { Quantiles } from './events.ts';

/** A write answered and visible on so many nodes, in milliseconds. */
export interface Point {
  readonly nodes: number;
  readonly p50: number;
  readonly p99: number;
}

/**
 * From the facts of `npm run bench -- visibility`, such as "30 lease holders (…), p50 and p99: the
 * write / …" and "4.2, 9.1 / … ms".
 */
export function pointsOf(facts: readonly Fact[]): Point[] {
  return facts.flatMap(({ what, result }) => {
    const nodes = /^(\d+) lease holders .*p50 and p99/.exec(what)?.[1];
    const times = /^([\d.]+), ([\d.]+) /.exec(result);
    if (nodes === undefined || times === null) return [];
    return [{ nodes: Number(nodes), p50: Number(times[1]), p99: Number(times[2]) }];
  });
}

const micros = (ms: number): string => `${(ms * 1000).toFixed(ms < 0.01 ? 1 : 0)} µs`;

function spread(quantiles: Quantiles): string {
  const at = (share: number): number => quantiles[Math.floor((quantiles.length - 1) * share)] ?? 0;
  return `${at(0.5).toFixed(2)} ms, one in a hundred more than ${at(0.99).toFixed(2)} ms`;
}

export function costRows(costs: Costs): [string, string][] {
  const { commit, leases, publish, beat, poll, pauses, threads } = costs;
  return [
    ['a message from a process until another works on it, beside NATS', micros(costs.wakeMs)],
    [
      `a commit of ${commit.statements} statements: at the writer / in PostgreSQL / between them`,
      `${micros(commit.loopMs)} / ${micros(commit.databaseMs)} / ${micros(2 * commit.statements * commit.wakeMs)}`,
    ],
    [
      'a read of the lease table: at the writer / in PostgreSQL',
      `${micros(leases.loopMs)} / ${micros(leases.databaseMs)}`,
    ],
    ['and each lease in it', `${micros(leases.loopPerRowMs)} / ${micros(leases.databasePerRowMs)}`],
    [
      'a broadcast at the writer, and each node of it',
      `${micros(publish.fixedMs)}, ${micros(publish.eachMs)}`,
    ],
    ['a broadcast at a node, with its acknowledgement', micros(costs.receiveMs)],
    [
      'and where it wakes who receives it: a node / the writer / NATS',
      `${micros(costs.cold.nodeMs)} / ${micros(costs.cold.writerMs)} / ${micros(costs.cold.busMs)}`,
    ],
    ['an acknowledgement at the writer', micros(costs.acknowledgedMs)],
    [
      'an event, sent or received, for each node that is up',
      `${(costs.scanMs * 1e6).toFixed(0)} ns`,
    ],
    ['a message in NATS', micros(costs.busMs)],
    [
      'a heartbeat: sent / received / each copy in NATS',
      `${micros(beat.sendMs)} / ${micros(beat.receiveMs)} / ${micros(beat.busMs)}`,
    ],
    [
      'a poll of the feed: at the node / at the one that answers / in PostgreSQL',
      `${micros(poll.askMs)} / ${micros(poll.answerMs)} / ${micros(poll.databaseMs)}`,
    ],
    [
      `a pause of the garbage collector, after each ${pauses.everyMs.toFixed(0)} ms of processor time`,
      spread(pauses.ms),
    ],
    [
      'a thread of V8 beside a loop: after so much of its processor time, for',
      `${threads.everyMs.toFixed(1)} ms, ${threads.ms.toFixed(2)} ms`,
    ],
    ['a commit later than half of them', spread(commit.late)],
    ['a broadcast to one node and its acknowledgement, likewise', spread(publish.late)],
  ];
}

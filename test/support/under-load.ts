/**
 * Clients that read, list and write all the time through one gateway while a fault happens, and
 * what they may notice of it.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { errorTable } from '../../shared/contracts/error-codes.ts';
import type { Cluster } from './cluster.ts';
import { Client, type Answer } from './strata.ts';

type RequestHeaders = Readonly<Record<string, string>>;
type Ask = (turn: number, headers: RequestHeaders) => Promise<Answer>;

/** What is asked all the time: of every piece, and mostly what nobody has in memory. */
function lanesOf({ tenant, platform }: Cluster, url: string): Record<string, Ask> {
  const admin = new Client(url, tenant.admin.token);
  const platformAdmin = new Client(url, platform.token);
  const of = `/tenants/${tenant.id}`;
  return {
    read: (_turn, headers) => admin.get(`${of}/config/risk`, headers),
    effective: (_turn, headers) => admin.get(`${of}/config/effective?agent_type=load`, headers),
    history: (_turn, headers) => admin.get(`${of}/config/history`, headers),
    members: (_turn, headers) => admin.get(`${of}/users`, headers),
    sessions: (_turn, headers) => admin.get('/auth/sessions', headers),
    events: (_turn, headers) => admin.get(`/audit/events?tenant_id=${tenant.id}&limit=5`, headers),
    approvals: (_turn, headers) => admin.get(`${of}/approvals`, headers),
    write: (turn, headers) => admin.put(`${of}/config/agents/load`, { custom: { turn } }, headers),
    'platform write': (turn, headers) =>
      platformAdmin.put('/config/global/load', { config_value: turn, is_public: true }, headers),
  };
}

interface Refusal {
  readonly requestId: string;
  readonly answer: Answer;
}

/** What the client of one lane has seen. */
export interface Seen {
  readonly name: string;
  readonly isWrite: boolean;
  slowestMs: number;
  answered: number;
  readonly refusals: Refusal[];
}

export interface SeenByAll {
  readonly lanes: readonly Seen[];
  /** How late this process was itself at the most, as all processes of a busy machine are. */
  readonly lateMs: number;
}

/** How often lateness is looked for. */
const lookAgainMs = 20;

/**
 * Asks everything over and over through the gateway at `url`, from just before the fault until some
 * time after it.
 */
export async function askDuring(
  cluster: Cluster,
  url: string,
  fault: () => Promise<void> | void,
): Promise<SeenByAll> {
  const state = { done: false, lateMs: 0 };
  const all: Seen[] = [];
  const lane = async ([name, ask]: readonly [string, Ask]): Promise<Seen> => {
    const seen: Seen = {
      name,
      isWrite: name.endsWith('write'),
      slowestMs: 0,
      answered: 0,
      refusals: [],
    };
    all.push(seen);
    for (let turn = 0; !state.done; turn += 1) {
      const requestId = randomUUID();
      const began = performance.now();
      const answer = await ask(turn, { 'x-request-id': requestId });
      seen.slowestMs = Math.max(seen.slowestMs, performance.now() - began);
      if (answer.status < 300) seen.answered += 1;
      else seen.refusals.push({ requestId, answer });
      await delay(30);
    }
    return seen;
  };
  const watchLateness = async (): Promise<void> => {
    while (!state.done) {
      const began = performance.now();
      await delay(lookAgainMs);
      state.lateMs = Math.max(state.lateMs, performance.now() - began - lookAgainMs);
    }
  };
  const lanes = Promise.all(Object.entries(lanesOf(cluster, url)).map(lane));
  // One that fails is observed below, once the fault is over.
  lanes.catch(() => {});
  const lateness = watchLateness();
  await delay(300);
  await fault();
  await delay(3500);
  // On a busy machine until each has had an answer.
  for (const until = performance.now() + 90_000; performance.now() < until; await delay(100))
    if (all.every(({ answered }) => answered > 0)) break;
  state.done = true;
  await lateness;
  return { lanes: await lanes, lateMs: state.lateMs };
}

export const summaryOf = ({ name, slowestMs, answered, refusals }: Seen): string =>
  `${name}: slowest ${Math.round(slowestMs)} ms, ${answered} answered, ${refusals.length} refused`;

/** Of the machinery, which no caller shall read: actions, nodes, libraries. */
const innards = /'|request to|node\b.*-\d|moleculer|nats|postgres|typeorm|stack/i;
/** What a write is told that may have been made. */
const outcomeUnknown = /may have been carried out/;

/**
 * Throws where a lane was not answered, where somebody waited longer than that, or where a refusal
 * is not as it must be.
 */
export async function assertBearable(
  cluster: Cluster,
  lanes: readonly Seen[],
  slowestMs: { readonly read: number; readonly write: number },
): Promise<void> {
  for (const seen of lanes) {
    const measured = summaryOf(seen);
    assert(seen.answered > 0, `nothing was answered: ${measured}`);
    assert(seen.slowestMs < slowestMs[seen.isWrite ? 'write' : 'read'], measured);
    for (const { answer } of seen.refusals) {
      const { code, message } = answer.body.detail;
      assert(Object.hasOwn(errorTable, code), answer.text);
      assert.doesNotMatch(message, innards);
      // A write may have been made by the node that went away; a read is made once more, of the
      // other node.
      assert(seen.isWrite, `a read was refused: ${answer.text}`);
      assert.equal(answer.status, 503, answer.text);
    }
  }
  const refusals = lanes.flatMap((seen) => seen.refusals);
  const notMade = refusals.filter(({ answer }) => !outcomeUnknown.test(answer.body.detail.message));
  const made = await madeOf(
    cluster,
    notMade.map(({ requestId }) => requestId),
  );
  assert.deepEqual(made, [], 'writes that were made, and refused without a word of that');
}

/** Which of these requests have committed something. */
async function madeOf({ database }: Cluster, requestIds: readonly string[]): Promise<string[]> {
  const rows = await database.query<{ id: string }>(
    `SELECT request_id AS id FROM audit.events WHERE request_id = ANY($1)
     UNION SELECT event->>'request_id' FROM strata.outbox WHERE event->>'request_id' = ANY($1)`,
    [requestIds],
  );
  return rows.map(({ id }) => id);
}

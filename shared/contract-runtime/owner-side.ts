/** A call on the node that owns the action, as steps: each checks the call, or adds to it. */
import type { Context } from 'moleculer';
import type { Logger } from 'pino';
import { checkAccess, type Caller } from '../access.ts';
import type { ActionHandler } from '../bus/moleculer-middleware.ts';
import type { Coherence } from '../coherence/coherence.ts';
import type { Loaded } from '../coherence/entry.ts';
import { deliver } from './local-cache.ts';
import type { Change } from '../commits/commit.ts';
import { powerOf } from '../contracts/consequences.ts';
import { isRead, type Contract } from '../contracts/contract.ts';
import { saysDatabase, StrataError } from '../errors.ts';
import { isCached, type Meta, type Params } from './call-meta.ts';
import { checkParams, checkResult, translate } from './checks.ts';
import { callWithin, type Request } from './request.ts';

export interface OwnerSideOptions {
  readonly coherence: Coherence;
  readonly requestTimeoutMs: number;
  readonly log: Logger;
  /** Called after a commit on this node. */
  readonly onCommitted: () => void;
}

interface Work {
  readonly side: OwnerSideOptions;
  readonly name: string;
  readonly contract: Contract;
  readonly handler: ActionHandler<Meta>;
  readonly ctx: Context<Params, Meta>;
  /** As the call came: meta flows back from callees, who could rewrite it. */
  readonly meta: Readonly<Meta>;
  readonly params: Params;
  readonly log: Logger;
  readonly committed: Change[];
  answer: unknown;
}

const ownerSteps = [authorize, validate, refuseLate, prepare, handle, checkAnswer];

/** Takes the place of the handler of an action. */
export const ownerSide =
  (
    side: OwnerSideOptions,
    name: string,
    contract: Contract,
    handler: ActionHandler<Meta>,
  ): ActionHandler<Meta> =>
  async (ctx) => {
    const work: Work = {
      side,
      name,
      contract,
      handler,
      ctx,
      meta: { ...ctx.meta },
      // What came over the bus is nobody else's.
      params: ctx.nodeID === ctx.broker.nodeID ? structuredClone(ctx.params) : ctx.params,
      log: side.log.child({ request_id: ctx.requestID, action: name }),
      committed: [],
      answer: undefined,
    };
    try {
      for (const step of ownerSteps) await step(work);
      return work.answer;
    } catch (error) {
      throw markCutOff(translate(error, work.log), work);
    } finally {
      await publish(work);
    }
  };

/**
 * Of an outage of this node's database of which its polls say the same: its callers ask other nodes
 * for as long. `retryable` is Moleculer's own, and goes with each error.
 */
function markCutOff(error: unknown, { side }: Work): unknown {
  const isOwn = saysDatabase(error) && (error as { nodeID?: string }).nodeID === undefined;
  return isOwn && !side.coherence.hasLease() ? Object.assign(error!, { retryable: true }) : error;
}

function authorize({ contract, meta, params }: Work): void {
  checkAccess(contract, meta.caller, params);
}

function validate({ contract, params }: Work): void {
  checkParams(contract, params);
}

/**
 * What came from another node while this one stood still, or was held up by the bus, is not written
 * any more: its caller has had a time-out and may have lost the right since, and others may have
 * written after it. What is said to a node of itself needs no database, whose polls tell this.
 */
function refuseLate({ side, name, contract, ctx, meta }: Work): void {
  const isOwn = ctx.nodeID === ctx.broker.nodeID;
  if (isOwn || isRead(contract) || name.startsWith('cluster.')) return;
  if (side.coherence.hasStoodStill())
    throw new StrataError(
      'service_unavailable',
      'The node stood still. Nothing was done. Try again.',
    );
  if (side.coherence.wasHeldUp(meta.sentAt))
    throw new StrataError(
      'service_unavailable',
      'The request was held up on its way. Nothing was done. Try again.',
    );
}

function prepare({ side, name, contract, ctx, meta, params, log, committed }: Work): void {
  const { client = {}, load, least = {} } = meta;
  const caller: Caller = meta.caller!;
  const power = powerOf(contract.leadsTo, params);
  const request: Request = {
    caller,
    requestId: ctx.requestID ?? ctx.id,
    client,
    least: load ? least : {},
    keys: contract.drops?.(params) ?? [],
    checkAnswer: (answer) => checkResult(contract, name, answer),
    checkRoles(now) {
      const roles = caller.roles.filter((role) => now.includes(role));
      checkAccess(contract, { ...caller, roles }, params);
    },
    committed,
    ...(power !== undefined && { power }),
    until: performance.now() + side.requestTimeoutMs,
    log,
    call: callWithin(ctx, name),
  };
  ctx.params = params;
  ctx.locals.request = request;
}

async function handle(work: Work): Promise<void> {
  work.answer = await work.handler(work.ctx);
}

async function checkAnswer(work: Work): Promise<void> {
  const { side, contract, name, meta, answer } = work;
  if (!isCached(contract)) {
    checkResult(contract, name, answer);
    return;
  }
  const loaded = answer as Loaded<unknown>;
  const { value } = loaded;
  // Null stands for what does not exist, whatever the result's schema is.
  if (value !== null) checkResult(contract, name, value);
  const stale = loaded.stale ?? (await side.coherence.mayHaveReadOldRows());
  if (!meta.load) work.answer = deliver(contract, value, meta.caller, stale);
  else if (stale) work.answer = { ...loaded, stale };
}

/**
 * Also where the handler failed after its commit: what is committed must be known before anything
 * is answered.
 */
async function publish({ side, committed }: Work): Promise<void> {
  if (committed.length === 0) return;
  await side.coherence.publish(committed);
  side.onCommitted();
}

/**
 * How a node asks others, and what its callers hear where nobody answers. Moleculer's errors name
 * its internals, and say to nobody whether a write was made; here each becomes an error of
 * Strata's.
 *
 * | Where                                         | A read                           | A write                                |
 * |-----------------------------------------------|----------------------------------|----------------------------------------|
 * | the connection to NATS has been away a second | 503 at once                      | 503 at once                            |
 * | no node answers such calls                    | 503 at once                      | 503 at once                            |
 * | none of this release, and others would not    | 503 at once                      | 503 at once                            |
 * | understand the call (`skew.ts`)               |                                  |                                        |
 * | the node went away, or its answer got lost    | is asked once more, of any node  | 503, which says that it may have been  |
 * |                                               |                                  | done                                   |
 * | the node does not reach its database          | is asked once more, of another   | 503; later ones go to another node     |
 * |                                               | node (`cut-off.ts`)              |                                        |
 * | no answer within the time-out                 | 504                              | 504, which says the same               |
 *
 * `unanswered-calls.ts` finds out about the third.
 */
import type { CallingOptions, ServiceBroker } from 'moleculer';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import { isRead } from '../contracts/contract.ts';
import { contractOf } from '../contracts/index.ts';
import { codeOf, isCoded, NoAnswerError, StrataError, unknownOutcome } from '../errors.ts';
import type { Bus } from '../bus/bus.ts';
import type { BusCall } from '../bus/moleculer-middleware.ts';
import { knownNow } from '../process/synchronized-clock.ts';
import { CutOffNodes } from './cut-off.ts';
import { endpointsOf, Skew } from './skew.ts';

export interface OutgoingCallsOptions {
  /** Asked when a call is made: Moleculer wants the function before there is a broker. */
  readonly broker: () => ServiceBroker;
  readonly bus: Bus;
  readonly requestTimeoutMs: number;
  readonly log: Logger;
}

/** As Moleculer prefers where it can. */
const isAnsweredHere = (broker: ServiceBroker, name: string, nodeID?: string): boolean =>
  nodeID === undefined
    ? (broker.registry.getActionEndpoints(name)?.hasLocal() ?? false)
    : nodeID === broker.nodeID;

/** Takes the place of Moleculer's `send`, which gives a call to a node. */
export function outgoingCalls(
  send: BusCall,
  { broker, bus, requestTimeoutMs, log }: OutgoingCallsOptions,
): BusCall {
  const skew = new Skew(broker);
  const cutOff = new CutOffNodes();
  const elsewhere = (name: string, mayTry: boolean): string | undefined =>
    cutOff.nodeFor(name, endpointsOf(broker(), name), mayTry);

  /**
   * A node that stops waits for calls that it answers. Moleculer would have it wait for those that
   * it has made, too, even for ones that have timed out, until the other node is gone.
   */
  const attempt = async (
    name: string,
    params: Parameters<BusCall>[1],
    options: CallingOptions | undefined,
    mayTry: boolean,
  ): Promise<unknown> => {
    const isLocal = isAnsweredHere(broker(), name, options?.nodeID);
    if (!isLocal && bus.away())
      throw new StrataError('service_unavailable', 'The bus does not answer. Try again.');
    if (isLocal) return send(name, params, options);
    const asked = options?.nodeID;
    const chosen = skew.nodeFor(name, params, asked);
    const released = chosen instanceof Promise ? await chosen : chosen;
    const nodeID = released ?? elsewhere(name, mayTry);
    const there = nodeID === asked ? options : { ...options, nodeID };
    const meta = { ...there?.meta, sentAt: knownNow() };
    const answer = await send(name, params, { ...there, meta, tracking: false });
    if (nodeID !== undefined) cutOff.noteAnswer(name, nodeID);
    return answer;
  };

  return async (name, params, options) => {
    const began = performance.now();
    const contract = contractOf(name);
    const mayRepeat = contract !== undefined && isRead(contract);
    try {
      return await attempt(name, params, options, mayRepeat).catch((error: unknown) => {
        const isCutOff = cutOff.note(name, error) && elsewhere(name, false) !== undefined;
        if (!mayRepeat || !(isCutOff || isLost(error))) throw error;
        return attempt(name, params, withoutTime(options, performance.now() - began), false);
      });
    } catch (error) {
      throw asStrataError(error, name, mayRepeat);
    }
  };

  function withoutTime(options: CallingOptions | undefined, spentMs: number): CallingOptions {
    const timeout = (options?.timeout || requestTimeoutMs) - spentMs;
    return { ...options, timeout: Math.max(1, timeout) };
  }

  function asStrataError(error: unknown, name: string, mayRepeat: boolean): unknown {
    if (isCoded(error)) return error;
    const code = codeOf(error);
    if (code === 'internal_error')
      log.error({ err: error, action: name }, 'a call could not be made');
    const isUnknown = !mayRepeat && (isLost(error) || code === 'timeout');
    const message = isUnknown ? unknownOutcome : messages[code];
    const kind = code === 'internal_error' ? StrataError : NoAnswerError;
    return new kind(code, message, { cause: error });
  }
}

const messages: Partial<Record<string, string>> = {
  service_unavailable: 'No node that could answer is connected. Try again.',
};

/** The node that was asked went away before it answered, or its answer got lost. */
const isLost = (error: unknown): boolean => (error as Error).name === 'RequestRejectedError';

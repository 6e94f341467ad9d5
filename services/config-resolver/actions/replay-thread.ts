/**
 * A thread beside that of the node, for replays: they are loops over a hundred thousand decisions,
 * and make as much garbage. The node's thread makes their calls, and passes pages of decisions on as
 * the text that the database wrote.
 *
 * | From       | To         | Message                                          |
 * |------------|------------|--------------------------------------------------|
 * | the node   | the thread | `Asked`: a replay, and the port that it answers on |
 * | the thread | the node   | a call, by its number                            |
 * | the node   | the thread | `Answered`: the answer to it, or the error's code |
 * | the thread | the node   | what was found, or why nothing                   |
 */
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { ErrorCode } from '../../../shared/contracts/error-codes.ts';
import type { ActionName, ParamsOf } from '../../../shared/contracts/index.ts';
import { codeOf, StrataError } from '../../../shared/errors.ts';
import type { ReplayFound, ReplayRun } from './replay-run.ts';

export interface Asked {
  readonly port: MessagePort;
  readonly run: ReplayRun;
}
interface Calling {
  readonly call: number;
  readonly action: ActionName;
  readonly params: ParamsOf<ActionName>;
}
export type Answered = { readonly call: number } & (
  { readonly value: unknown } | { readonly code: ErrorCode }
);
export type FromWorker =
  | Calling
  | { readonly found: ReplayFound }
  /** The call that failed, or an error that is no call's. */
  | { readonly refused: number }
  | { readonly error: unknown };

/**
 * Many times of what a replay of 100,000 decisions that 500 configurations made takes. V8 collects
 * the less often, the more it may keep.
 */
const resourceLimits = { maxOldGenerationSizeMb: 1024, maxYoungGenerationSizeMb: 24 };

export class ReplayThread {
  /** Kept from the first replay on: it takes a third of a second to load. */
  #worker: Worker | undefined;

  async run(run: ReplayRun, { call, log }: Pick<Request, 'call' | 'log'>): Promise<ReplayFound> {
    const { port1: own, port2: port } = new MessageChannel();
    const outcome = Promise.withResolvers<ReplayFound>();
    const refused = new Map<number, unknown>();
    const relay = async ({ call: number, action, params }: Calling): Promise<void> => {
      const answer = (answered: Answered): void => own.postMessage(answered);
      try {
        answer({ call: number, value: await call(action, params) });
      } catch (error) {
        refused.set(number, error);
        answer({ call: number, code: codeOf(error) });
      }
    };
    own.on('message', (message: FromWorker) => {
      if ('call' in message) void relay(message);
      else if ('found' in message) outcome.resolve(message.found);
      else outcome.reject('error' in message ? message.error : refused.get(message.refused));
    });
    const worker = (this.#worker ??= this.#start(log));
    // Where the thread ends, its ports close before it says so.
    own.once('close', () => {
      this.#forget(worker);
      outcome.reject(ended());
    });
    worker.postMessage({ port, run } satisfies Asked, [port]);
    try {
      return await outcome.promise;
    } finally {
      own.removeAllListeners('close');
      own.close();
    }
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }

  #start(log: Request['log']): Worker {
    const file = new URL('replay-worker.ts', import.meta.url);
    // Else the thread compiles what is kept of an earlier start, for half a second.
    const kept = getCompileCacheDir();
    const env = kept === undefined ? {} : { NODE_COMPILE_CACHE: dirname(kept) };
    const worker = new Worker(file, { name: 'replay', env, resourceLimits });
    worker.on('error', (error) => log.error({ err: error }, 'the thread of replays failed'));
    worker.on('exit', () => this.#forget(worker));
    worker.unref();
    return worker;
  }

  #forget(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
  }
}

const ended = (): StrataError =>
  new StrataError(
    'service_unavailable',
    'The thread that replays decisions has ended. Try again, with less of a span.',
  );

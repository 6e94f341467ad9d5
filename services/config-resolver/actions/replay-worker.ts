/** The thread that replays decisions, which replay-thread.ts starts. Each replay has a port of its own. */
import { parentPort, type MessagePort } from 'node:worker_threads';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import { runReplay, type ReplayRun } from './replay-run.ts';
import type { Answered, Asked, FromWorker } from './replay-thread.ts';

parentPort!.on('message', ({ port, run }: Asked) => void serve(port, run));

async function serve(port: MessagePort, run: ReplayRun): Promise<void> {
  const answer = (message: FromWorker): void => port.postMessage(message);
  try {
    answer({ found: await runReplay(run, callOver(port)) });
  } catch (error) {
    answer(error instanceof CallFailed ? { refused: error.call } : { error });
  }
}

/** What the node's thread knows the error of. Its code is what a replay goes by. */
class CallFailed extends Error {
  readonly call: number;
  readonly type: string;
  constructor(call: number, code: string) {
    super(code);
    this.call = call;
    this.type = code;
  }
}

/** The node's thread makes the calls, as the action that replays. */
function callOver(port: MessagePort): Call {
  const open = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;
  port.on('message', ({ call, ...answered }: Answered) => {
    const { resolve, reject } = open.get(call)!;
    open.delete(call);
    if ('code' in answered) reject(new CallFailed(call, answered.code));
    else resolve(answered.value);
  });
  const call = (action: string, params: unknown): Promise<unknown> => {
    calls += 1;
    const answered = Promise.withResolvers<unknown>();
    open.set(calls, answered);
    port.postMessage({ call: calls, action, params });
    return answered.promise;
  };
  return call as Call;
}

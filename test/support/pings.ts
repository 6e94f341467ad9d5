/** Whether others are held up: pings beside some work. */
import { Agent, get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const ping = (url: string): Promise<void> =>
  new Promise((resolve, reject) => {
    get(`${url}/healthz`, { agent }, (response) => {
      response.resume().on('end', resolve);
    }).on('error', reject);
  });

/** So long what follows from a write may take, such as its audit. */
const afterwardsMs = 200;

/** The longest that a ping took, one each 5 ms, until the work has ended, in milliseconds. */
async function worstPingBeside(url: string, work: () => Promise<unknown>): Promise<number> {
  let worst = 0;
  const over = new AbortController();
  const ended = work()
    .then(() => delay(afterwardsMs))
    .finally(() => over.abort());
  while (!over.signal.aborted) {
    const began = performance.now();
    await ping(url);
    worst = Math.max(worst, performance.now() - began);
    await delay(5);
  }
  await ended;
  return worst;
}

const mostMs = 100_000;

/**
 * The worst ping of the try that was disturbed least, or of the first within `enoughMs`: a machine
 * that is busy with something else holds up pings, too, but not each time.
 */
export async function leastWorstPing(
  url: string,
  work: () => Promise<unknown>,
  enoughMs: number,
): Promise<number> {
  const until = performance.now() + mostMs;
  let least = Infinity;
  while (least > enoughMs && performance.now() < until)
    least = Math.min(least, await worstPingBeside(url, work));
  return least;
}

/** How a send ended that somebody waits for in a request, such as a test of an endpoint. */
import { within } from '../concurrency/within.ts';
import { codeOf } from '../errors.ts';
import type { Outcome } from './send-result.ts';

/** Of the request's own time, so that what became of the send is its answer. */
const part = 0.8;

/**
 * An endpoint may have longer to answer than a request takes. The send is not cancelled, and what it
 * comes to later is dropped.
 */
export async function testOutcome(
  sending: Promise<Outcome>,
  requestTimeoutMs: number,
): Promise<Outcome> {
  const began = performance.now();
  const ms = requestTimeoutMs * part;
  try {
    return await within(ms, sending);
  } catch (error) {
    if (codeOf(error) !== 'timeout') throw error;
    const seconds = Math.round(ms / 100) / 10;
    return {
      result: 'retry',
      duration_ms: performance.now() - began,
      status: null,
      answer: null,
      error: `did not answer within ${seconds} s, for as long as a test waits`,
    };
  }
}

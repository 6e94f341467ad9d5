/** What is done with large values, in chunks that leave room for the requests of others. */
import { setImmediate } from 'node:timers/promises';

/** Whatever is done with a value of more bytes of JSON than this takes milliseconds. */
const largeBytes = 64 * 1024;

/** To be awaited between two steps of work on a value of so many bytes. */
export async function letOthersRun(bytes: number): Promise<void> {
  if (bytes > largeBytes) await setImmediate();
}

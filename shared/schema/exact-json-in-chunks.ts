/** Apart from `exact-json.ts`, which browsers load, too. */
import { setImmediate } from 'node:timers/promises';
import { exactJsonChunks } from './exact-json.ts';

/** Exact JSON of what others send: their other requests are served between its chunks. */
export async function parseExactJsonInChunks(text: string): Promise<unknown> {
  const chunks = exactJsonChunks(text);
  for (;;) {
    const { done, value } = chunks.next();
    if (done) return value;
    await setImmediate();
  }
}

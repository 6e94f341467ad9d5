/**
 * One tenant that asks for more than its share: `flood.ts <{origin, method, path, body, token, atOnce,
 * perSecond}>`. It has `atOnce` requests under way, each on a connection of its own, and asks again
 * when one is answered, altogether `perSecond` times a second. Prints `asked` when each has been
 * sent once, and how often each status was answered when it ends. `{n}` in path and body is a number
 * that no other request has.
 */
import { Agent, request } from 'node:http';
import { constants, setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

export interface Flood {
  readonly origin: string;
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  readonly token: string;
  readonly atOnce: number;
  readonly perSecond: number;
}
const { origin, method, path, body, token, atOnce, perSecond } = JSON.parse(
  process.argv[2]!,
) as Flood;
// It shares a core with whoever measures, and must not be what is measured.
setPriority(constants.priority.PRIORITY_LOW);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const statuses: Record<string, number> = {};
/** Requests that were answered: each is made once more. */
let waiting = atOnce;
let asked = 0;

function ask(): void {
  waiting -= 1;
  asked += 1;
  const numbered = (text: string): string => text.replaceAll('{n}', String(asked));
  const text = body && numbered(body);
  const answered = (status: number | string): void => {
    statuses[status] = (statuses[status] ?? 0) + 1;
    waiting += 1;
  };
  const headers = {
    authorization: `Bearer ${token}`,
    ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
  };
  request(new URL(numbered(path), origin), { agent, method, headers }, (response) => {
    response.resume().once('close', () => answered(response.statusCode!));
  })
    .once('error', (error: NodeJS.ErrnoException) => answered(error.code ?? error.message))
    .end(text);
}

process.once('SIGTERM', () => {
  process.stdout.write(`${JSON.stringify(statuses)}\n`, () => process.exit());
});
const tickMs = 20;
let isOpen = false;
for (;;) {
  const now = Math.min(waiting, Math.max(1, Math.round((perSecond * tickMs) / 1000)));
  for (let each = 0; each < now; each += 1) ask();
  if (!isOpen && asked >= atOnce) {
    isOpen = true;
    process.stdout.write('asked\n');
  }
  await delay(tickMs);
}

/**
 * Readers of watch streams, on plain sockets:
 * `stream-readers.ts <origin> <how many> <[{path, token}]>`, which are taken in turn. Prints `open`
 * once all have begun, and then for each event that all have got the moment when the last one did,
 * in milliseconds since 1970.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

interface Watched {
  readonly path: string;
  readonly token: string;
}

const [origin, count, watched] = [
  new URL(process.argv[2]!),
  Number(process.argv[3]),
  JSON.parse(process.argv[4]!) as Watched[],
];
/** So many connect at the same time. */
const batch = 50;
const sockets: Socket[] = [];
const events: number[] = [];
let reported = 0;

function noteEvents(reader: number, got: number): void {
  if (got === 0) return;
  events[reader] = events[reader]! + got;
  while (events.every((each) => each > reported)) {
    reported += 1;
    process.stdout.write(`${performance.timeOrigin + performance.now()}\n`);
  }
}

async function open(reader: number): Promise<void> {
  const { path, token } = watched[reader % watched.length]!;
  const socket = connect(Number(origin.port), origin.hostname);
  sockets.push(socket);
  events[reader] = 0;
  socket.on('error', (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
  await once(socket, 'connect');
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: ${origin.host}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  );
  let head = '';
  while (!head.includes('event: ready')) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    head += chunk.toString('latin1');
    if (!head.startsWith('HTTP/1.1 200')) throw new Error(head);
  }
  socket.on('data', (chunk: Buffer) => {
    if (chunk.includes('event: effective.changed')) noteEvents(reader, 1);
  });
}

for (let reader = 0; reader < count; reader += batch)
  await Promise.all(
    Array.from({ length: Math.min(batch, count - reader) }, (_each, index) => open(reader + index)),
  );
process.stdout.write('open\n');

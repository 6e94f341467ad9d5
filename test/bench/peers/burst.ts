/**
 * Very many connections that ask for one value at the moment when no memory has it, and by turns
 * one connection that does. Prints milliseconds, per round: the median of ten crowds, of each its
 * 99th percentile, and of ten reads. `burst.ts <url> <path> <authorization> <rounds>`
 *
 * What it measures is not its own: bytes go into a buffer that each connection has from the start,
 * and are read once all have come.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { alternate, median } from '../report.ts';

const connections = 400;
/** Of bursts or reads, for one measurement. */
const repetitions = 10;
/** Of the answer, with room for more. */
const answerBytes = 16_384;

const [url, path, authorization, rounds] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
];
const { host, hostname, port } = new URL(url);
const request = [`GET ${path} HTTP/1.1`, `Host: ${host}`, `Authorization: ${authorization}`];
const bytes = Buffer.from(`${request.join('\r\n')}\r\n\r\n`);

let value = 0;
/** After it the value is in no memory. Returns how every answer from now on must end. */
async function write(): Promise<Buffer<ArrayBuffer>> {
  value = (value + 1) % 40;
  const answer = await fetch(url + path, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ global_settings: { max_cost_impact_auto: value } }),
  });
  if (answer.status !== 200) throw new Error(`a write was answered with ${answer.status}`);
  return Buffer.from(`\r\n\r\n${await answer.text()}`);
}

class Connection {
  readonly socket: Socket;
  readonly #answer = Buffer.alloc(answerBytes);
  #length = 0;
  #began = 0;
  #expected = Buffer.alloc(0);
  #end: ((tookMs: number) => void) | undefined;

  constructor() {
    const onread = {
      buffer: Buffer.alloc(answerBytes),
      callback: (length: number, read: Uint8Array): boolean => {
        this.#read(read.subarray(0, length));
        return true;
      },
    };
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true, onread });
    this.socket.on('close', () => {
      throw new Error('a connection was closed');
    });
  }

  /** Milliseconds from sending the request to the end of its answer. */
  ask(expected: Buffer<ArrayBuffer>): Promise<number> {
    this.#length = 0;
    this.#expected = expected;
    return new Promise((resolve) => {
      this.#end = resolve;
      this.#began = performance.now();
      this.socket.write(bytes);
    });
  }

  #read(read: Uint8Array): void {
    this.#answer.set(read, this.#length);
    this.#length += read.length;
    const end = this.#answer.subarray(this.#length - this.#expected.length, this.#length);
    if (end.equals(this.#expected)) this.#end!(performance.now() - this.#began);
  }

  /** Throws where the answer is not that of a read. */
  check(): void {
    const answer = this.#answer.toString('utf8', 0, this.#length);
    if (!answer.startsWith('HTTP/1.1 200 ')) throw new Error(`not what was asked for: ${answer}`);
  }
}

const all = Array.from({ length: connections }, () => new Connection());
await Promise.all(all.map(({ socket }) => once(socket, 'connect')));

/** The 99th percentile of what they were answered after. */
async function askOver(some: readonly Connection[]): Promise<number> {
  const expected = await write();
  const took = await Promise.all(some.map((each) => each.ask(expected)));
  for (const each of some) each.check();
  return took.toSorted((a, b) => a - b)[Math.ceil(took.length * 0.99) - 1]!;
}

const medianOf = (some: readonly Connection[]) => async (): Promise<number> => {
  const measured: number[] = [];
  for (let each = 0; each < repetitions; each += 1) measured.push(await askOver(some));
  return median(measured);
};
process.stdout.write('connected\n');
process.stdout.write(
  `${JSON.stringify(await alternate(Number(rounds), medianOf(all), medianOf(all.slice(0, 1))))}\n`,
);
process.exit();

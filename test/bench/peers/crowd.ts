/**
 * Very many connections that ask for one value at the moment when no memory has it, and by turns one connection that does. Prints
 * milliseconds, per round: the median of ten crowds, of each its 99th percentile, and of ten reads.
 * `crowd.ts <url> <path> <authorization> <rounds>`
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { alternate, median } from '../report.ts';

const connections = 400;
/** Of crowds or reads, for one figure. */
const repetitions = 10;

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
async function write(): Promise<string> {
  value = (value + 1) % 40;
  const answer = await fetch(url + path, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ global_settings: { max_cost_impact_auto: value } }),
  });
  if (answer.status !== 200) throw new Error(`a write was answered with ${answer.status}`);
  return `\r\n\r\n${await answer.text()}`;
}

/** Milliseconds from sending the request to the end of its answer. */
function ask(socket: Socket, expected: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let answer = '';
    const read = (text: string): void => {
      answer += text;
      if (!answer.endsWith(expected)) return;
      const tookMs = performance.now() - began;
      socket.off('data', read).off('close', fail);
      if (answer.startsWith('HTTP/1.1 200 ')) resolve(tookMs);
      else fail();
    };
    const fail = (): void => reject(new Error(`not the answer that was written: ${answer}`));
    socket.on('data', read).once('close', fail);
    socket.write(bytes);
  });
}

const sockets = Array.from({ length: connections }, () =>
  connect({ host: hostname, port: Number(port), noDelay: true }).setEncoding('utf8'),
);
await Promise.all(sockets.map((socket) => once(socket, 'connect')));

async function crowd(): Promise<number> {
  const expected = await write();
  const took = await Promise.all(sockets.map((socket) => ask(socket, expected)));
  return took.toSorted((a, b) => a - b)[Math.ceil(took.length * 0.99) - 1]!;
}
const one = async (): Promise<number> => ask(sockets[0]!, await write());

const medianOf = (work: () => Promise<number>) => async (): Promise<number> => {
  const figures: number[] = [];
  for (let each = 0; each < repetitions; each += 1) figures.push(await work());
  return median(figures);
};
process.stdout.write('connected\n');
process.stdout.write(
  `${JSON.stringify(await alternate(Number(rounds), medianOf(crowd), medianOf(one)))}\n`,
);
process.exit();

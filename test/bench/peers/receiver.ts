/**
 * Receives notices on a port of loopback, checks every signature, and tells on GET how many came,
 * and when the first and the last.
 */
import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const [secret] = process.argv.slice(2) as [string];
let tally = { count: 0, wrong: 0, first: 0, last: 0 };

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.end(JSON.stringify(tally));
    if (request.url === '/reset') tally = { count: 0, wrong: 0, first: 0, last: 0 };
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const {
      'webhook-id': id,
      'webhook-timestamp': at,
      'webhook-signature': signature,
    } = request.headers;
    const expected = createHmac('sha256', secret)
      .update(`${id as string}.${at as string}.`)
      .update(Buffer.concat(chunks))
      .digest('base64');
    if (signature !== `v1,${expected}`) tally.wrong += 1;
    tally.last = performance.now();
    if (tally.count === 0) tally.first = tally.last;
    tally.count += 1;
    response.writeHead(204).end();
  });
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`),
);

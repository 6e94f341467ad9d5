/**
 * The baseline of watch streams: a server that keeps connections and writes the same event to all.
 * GET is a stream, POST an event.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const open = new Set<ServerResponse>();
let id = 0;
const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('id: 0\nevent: ready\ndata: {}\n\n');
    open.add(response);
    response.once('close', () => open.delete(response));
    return;
  }
  id += 1;
  const frame = Buffer.from(`id: ${id}\nevent: effective.changed\ndata: {"revision":${id}}\n\n`);
  for (const each of open) each.write(frame);
  response.end();
});
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});

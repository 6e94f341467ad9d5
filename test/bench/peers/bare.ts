/**
 * The baseline: a Fastify route that sends the same bytes to anyone, with our gateway's options of
 * the server. `bare.ts <body>`
 */
import fastify from 'fastify';
import type { AddressInfo } from 'node:net';

// As text, which Node sends faster than a Buffer: with the headers at once.
const body = process.argv[2]!;
const app = fastify({ http: { optimizeEmptyRequests: true } });
app.get('/tenants/:tenant_id/config/risk', (_request, reply) => {
  reply.header('content-type', 'application/json').serializer(String).send(body);
});
await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}\n`);

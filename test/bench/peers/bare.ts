/** The floor: a Fastify route that sends the same bytes to anyone. `bare.ts <body>` */
import fastify from 'fastify';
import type { AddressInfo } from 'node:net';

const bytes = Buffer.from(process.argv[2]!);
const app = fastify();
app.get('/tenants/:tenant_id/config/risk', (_request, reply) => { reply.header('content-type', 'application/json').send(bytes); });
await app.listen({ host: '127.0.0.1', port: 0 });
process.stdout.write(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}\n`);

/**
 * The usual way to put Moleculer behind HTTP, without anything that it could do without: `moleculer-web.ts gateway|service <nats> <body>`.
 * The service answers from its memory, so that its node does as little as it can.
 */
import { createRequire } from 'node:module';
import { ServiceBroker, type ServiceSchema } from 'moleculer';
import { freePort } from '../../support/servers.ts';

const [role, nats, body] = process.argv.slice(2) as [string, string, string];
const broker = new ServiceBroker({ nodeID: `peer-${role}`, namespace: 'peer', transporter: { type: 'NATS', options: { url: nats } }, logger: false });
const port = await freePort();
if (role === 'gateway') {
  broker.createService({
    name: 'api', mixins: [createRequire(import.meta.url)('moleculer-web') as ServiceSchema],
    settings: {
      ip: '127.0.0.1', port, logRequest: null, logRequestParams: null, logResponse: null,
      routes: [{ path: '/', mappingPolicy: 'restrict', aliases: { 'GET tenants/:tenant_id/config/risk': 'risk.get' }, bodyParsers: false, logging: false }],
    },
  } as ServiceSchema);
} else {
  const document = JSON.parse(body) as unknown;
  broker.createService({ name: 'risk', actions: { get: () => document } });
}
await broker.start();
if (role === 'gateway') await broker.waitForServices('risk');
process.stdout.write(`http://127.0.0.1:${port}\n`);

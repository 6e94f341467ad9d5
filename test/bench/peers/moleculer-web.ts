/**
 * The usual way to put Moleculer behind HTTP, without anything that it could do without:
 * `moleculer-web.ts gateway|service <nats> <resource>`. The service's node does what the action is:
 * it checks who calls and with what, and answers the resource, from a Map in its memory.
 */
import { createRequire } from 'node:module';
import { ServiceBroker, type Context, type ServiceSchema } from 'moleculer';
import { checkAccess, type Caller } from '../../../shared/access.ts';
import { checkParams } from '../../../shared/contract-runtime/checks.ts';
import { contractOf } from '../../../shared/contracts/index.ts';
import { freePort } from '../../support/servers.ts';

interface Meta {
  caller?: Caller;
}
const [role, nats, resource] = process.argv.slice(2) as [string, string, string];
const broker = new ServiceBroker({
  nodeID: `peer-${role}`,
  namespace: 'peer',
  transporter: { type: 'NATS', options: { url: nats } },
  logger: false,
});
const port = await freePort();
if (role === 'gateway') {
  broker.createService({
    name: 'api',
    mixins: [createRequire(import.meta.url)('moleculer-web') as ServiceSchema],
    settings: {
      ip: '127.0.0.1',
      port,
      logRequest: null,
      logRequestParams: null,
      logResponse: null,
      routes: [
        {
          path: '/',
          mappingPolicy: 'restrict',
          aliases: { 'GET tenants/:tenant_id/config/risk': 'risk.get' },
          bodyParsers: false,
          logging: false,
          onBeforeCall(
            ctx: Context<{ tenant_id: string }, Meta>,
            _route: unknown,
            request: { $params: { tenant_id: string } },
          ) {
            ctx.meta.caller = {
              type: 'user',
              id: 'admin',
              tenant_id: request.$params.tenant_id,
              roles: ['tenant_admin'],
              platform_roles: [],
            };
          },
          onAfterCall: (
            _ctx: unknown,
            _route: unknown,
            _request: unknown,
            _response: unknown,
            { document }: { document: unknown },
          ) => document,
        },
      ],
    },
  } as ServiceSchema);
} else {
  const contract = contractOf('tenant-config.risk.get')!;
  const { tenant_id: tenantId, ...known } = JSON.parse(resource) as { tenant_id: string };
  const cached = new Map([[contract.cache!.key({ tenant_id: tenantId }), known]]);
  broker.createService({
    name: 'risk',
    actions: {
      get({ params, meta }: Context<{ tenant_id: string }, Meta>) {
        checkAccess(contract, meta.caller, params);
        checkParams(contract, params);
        return cached.get(contract.cache!.key(params));
      },
    },
  });
}
await broker.start();
if (role === 'gateway') await broker.waitForServices('risk');
process.stdout.write(`http://127.0.0.1:${port}\n`);

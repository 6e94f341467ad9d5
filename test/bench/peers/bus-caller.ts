/**
 * A platform service's node, as moleculer.config.ts makes it, and by turns the least that such a
 * read could cost: a look into a Map and a call of a local action that does nothing. Prints the
 * effective configuration, then microseconds of either, per round. Then the same of a decision,
 * beside the effective configuration that it is made by. `bus-caller.ts <tenant> <rounds> <calls>`
 */
import { ServiceBroker } from 'moleculer';
import { setImmediate } from 'node:timers/promises';
import config from '../../../moleculer.config.ts';
import { serviceCaller } from '../../../shared/access.ts';
import { alternate } from '../report.ts';

const [tenantId, rounds, calls] = [
  process.argv[2]!,
  Number(process.argv[3]),
  Number(process.argv[4]),
];
const broker = new ServiceBroker(config);
const plain = new ServiceBroker({ logger: false });
plain.createService({ name: 'nothing', actions: { get: () => null } });
await Promise.all([broker.start(), plain.start()]);
await broker.waitForServices(['config-resolver', 'tenant-config', 'global-config'], 15_000);

const params = { tenant_id: tenantId, agent_type: 'cost_optimizer', service_id: 'checkout' };
const options = { meta: { caller: serviceCaller('bench') } };
const read = (): Promise<unknown> => broker.call('config-resolver.resolve', params, options);
const answer = await read();
process.stdout.write(`${JSON.stringify(answer)}\n`);

const known = new Map(
  Array.from({ length: 1000 }, (_each, index) => [index === 0 ? tenantId : String(index), answer]),
);
async function micros(work: () => Promise<boolean>): Promise<number> {
  const began = performance.now();
  let wrong = 0;
  for (let call = 0; call < calls; call += 1) {
    if (!(await work())) wrong += 1;
    // The feed must be polled meanwhile, or the lease runs out.
    if (call % 1000 === 0) await setImmediate();
  }
  if (wrong > 0) throw new Error(`${wrong} answers were not the cached one`);
  return ((performance.now() - began) * 1000) / calls;
}
const kept = await read();
const found = await alternate(
  rounds,
  () => micros(async () => (await read()) === kept),
  () =>
    micros(
      async () => known.get(tenantId) === answer && (await plain.call('nothing.get')) === null,
    ),
);
process.stdout.write(`${JSON.stringify(found)}\n`);

const intent = { action: 'scale', risk_level: 'high', resource_scaling: 2 };
const { tenant_id, ...touched } = params;
/** By turns, as several automations would ask again and again. */
const asked = Array.from({ length: 100 }, (_each, index) => ({
  tenant_id,
  body: { ...intent, ...touched, cost_impact: index / 4 },
}));
let turn = 0;
function decide(): Promise<{ decision: string }> {
  turn = (turn + 1) % asked.length;
  return broker.call('config-resolver.decide', asked[turn]!, options);
}
const decided = await alternate(
  rounds,
  () => micros(async () => (await decide()).decision === 'approval_required'),
  () => micros(async () => (await read()) === kept),
);
process.stdout.write(`${JSON.stringify(decided)}\n`);
await Promise.all([broker.stop(), plain.stop()]);
process.exit();

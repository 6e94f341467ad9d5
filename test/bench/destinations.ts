/**
 * Events that are pushed: whether destinations that never answer delay the notice of an approval, and
 * how long a destination takes that begins with a hundred thousand events of the past.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startReceiver } from '../support/receiver.ts';
import { createTenant, type TenantFixture } from '../support/strata.ts';
import { serverCore } from './machine.ts';
import { recordEvents } from './neighbours.ts';
import { alternate, type Comparison, type Fact, type Group } from './report.ts';
import { platformAdmin, startStage, type Stage } from './stage.ts';
import { configureEndpoints, noticeTimes, reachable } from './webhooks.ts';

const hungDestinations = 50;
const perTenant = 5;
const past = 100_000;

async function pushTo(
  { admin, id }: TenantFixture,
  destinations: Readonly<Record<string, object>>,
): Promise<void> {
  const saved = await admin.put(`/tenants/${id}/config/event-destinations`, destinations);
  if (saved.status >= 300) throw new Error(saved.text);
}

async function besideHung(stage: Stage, rounds: number, seconds: number): Promise<Comparison> {
  let hanging = 0;
  const allHang = Promise.withResolvers<void>();
  const hung = createServer(() => {
    hanging += 1;
    if (hanging === hungDestinations) allHang.resolve();
  });
  hung.listen(0, '127.0.0.1');
  await once(hung, 'listening');
  const { port } = hung.address() as AddressInfo;
  const receiver = await startReceiver();
  const side = async (name: string) => {
    const { url } = await stage.anotherDatabase();
    const environment = { ...stage.alone, DATABASE_URL: url, ...reachable };
    const node = await stage.start([], serverCore, environment);
    const platform = await platformAdmin(node.url);
    const tenant = await createTenant(node.url, platform, `Healthy ${name}`);
    await configureEndpoints(tenant, [receiver.url]);
    return { node, platform, tenant };
  };
  try {
    const quiet = await side('alone');
    const beside = await side('beside');
    for (let each = 0; each < hungDestinations; each += perTenant) {
      const other = await createTenant(beside.node.url, beside.platform, `Hung ${each}`);
      const own = Array.from({ length: perTenant }, (_each, index) => [
        `d${index}`,
        { url: `http://127.0.0.1:${port}/${each + index}`, from_seq: 1 },
      ]);
      await pushTo(other, Object.fromEntries(own) as Record<string, object>);
    }
    await allHang.promise;
    return {
      what: `p99 of an approval's webhook beside ${hungDestinations} event destinations that hang`,
      peer: 'without them',
      unit: 'ms',
      goal: { atMost: 1.2 },
      ...(await alternate(
        rounds,
        () => noticeTimes(beside.tenant, receiver, seconds),
        () => noticeTimes(quiet.tenant, receiver, seconds),
      )),
    };
  } finally {
    await receiver.close();
    hung.closeAllConnections();
    hung.close();
  }
}

/** Throws where an event is missing, twice, or before an earlier one. */
async function backfill(stage: Stage): Promise<Fact> {
  const { url } = await stage.start([], serverCore, { ...stage.alone, ...reachable });
  const tenant = await createTenant(url, await platformAdmin(url), 'Past');
  await recordEvents(stage.database.url, tenant.id, past);
  let last = 0;
  let wrong: string | undefined;
  const arrived = Promise.withResolvers<void>();
  const receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { data } = JSON.parse(Buffer.concat(chunks).toString()) as {
        data: { events: { seq: number }[] };
      };
      for (const { seq } of data.events) {
        if (seq !== last + 1) wrong ??= `${seq} came after ${last}`;
        last = seq;
      }
      response.writeHead(204).end();
      if (last >= past) arrived.resolve();
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const { port } = receiver.address() as AddressInfo;
  const began = performance.now();
  try {
    await pushTo(tenant, {
      past: { url: `http://127.0.0.1:${port}/`, from_seq: 1, batch: { max_events: 500 } },
    });
    await arrived.promise;
  } finally {
    receiver.closeAllConnections();
    receiver.close();
  }
  if (wrong !== undefined) throw new Error(wrong);
  const seconds = (performance.now() - began) / 1000;
  return {
    what: `${past} events of the past at a new destination, in order`,
    result: `${seconds.toFixed(1)} s, ${Math.round(past / seconds)} a second`,
  };
}

export const destinations: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    const row = await besideHung(stage, rounds, seconds);
    return { rows: [row], facts: [await backfill(stage)] };
  } finally {
    await stage.stop();
  }
};

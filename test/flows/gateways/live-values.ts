/**
 * Effective values held live over two gateways of their own process: never older than an answered
 * write, resumed anywhere, honest when cut off.
 */
import { beforeAll, expect, test } from '@jest/globals';
import { connect } from '../../../client/source/index.ts';
import { eventually } from '../../support/cluster.ts';
import { watch, type WatchStream } from '../../support/event-stream.ts';
import {
  createTenant,
  type Answer,
  type Client,
  type TenantFixture,
} from '../../support/strata.ts';
import { at as atGateway, cluster, cuttable } from './cluster.ts';

let tenant: TenantFixture;
beforeAll(async () => {
  tenant = await createTenant(cluster.platform.url, cluster.platform, 'Live');
});

const at = (gateway: number, by: Client = tenant.viewer): Client => atGateway(gateway, by);
const effective = (query = '?agent_type=live'): string =>
  `/tenants/${tenant.id}/config/effective${query}`;
const stream = (gateway: number, lastEventId?: string): Promise<WatchStream> =>
  watch(at(gateway), effective('/watch?agent_type=live'), lastEventId);
const writeAgent = (gateway: number, value: number): Promise<Answer> =>
  at(gateway, tenant.admin).put(`/tenants/${tenant.id}/config/agents/live`, {
    custom: { value },
  });
const writePlatform = (gateway: number, value: number): Promise<Answer> =>
  at(gateway, cluster.platform).put('/config/global/live_band', {
    config_value: value,
    is_public: true,
  });
const revisionOf = ({ headers }: Answer): number => Number(headers.get('x-config-revision'));
const changesOf = ({ events }: WatchStream) =>
  events.filter(({ event }) => event === 'effective.changed');
type Revisions = { readonly tenant: number; readonly platform: number };
const revisionsIn = (event: { data: unknown }): Revisions =>
  (event.data as { revision: Revisions }).revision;

test('writes through either gateway are told on both, by the keys, in order', async () => {
  await writeAgent(0, 0);
  const streams = await Promise.all([stream(0), stream(1)]);
  await Promise.all(streams.map((each) => each.until(({ event }) => event === 'ready')));
  let ofTenant = 0;
  let ofPlatform = 0;
  for (let value = 1; value <= 10; value += 1) {
    ofTenant = revisionOf(await writeAgent(value % 2, value));
    ofPlatform = revisionOf(await writePlatform((value + 1) % 2, value));
  }
  for (const each of streams) {
    await each.until(
      (event) =>
        event.event === 'effective.changed' &&
        revisionsIn(event).tenant === ofTenant &&
        revisionsIn(event).platform === ofPlatform,
    );
    const seen = changesOf(each).map(revisionsIn);
    expect(seen).toEqual(seen.toSorted((a, b) => a.tenant - b.tenant || a.platform - b.platform));
    expect(
      [...new Set(changesOf(each).flatMap(({ data }) => data.keys as string[]))].toSorted(),
    ).toEqual(['custom', 'live_band']);
    each.leave();
  }
});

test('what an event names can be read at once on the other gateway, by its id', async () => {
  const from = await stream(0);
  await from.until(({ event }) => event === 'ready');
  for (let value = 100; value < 110; value += 1) {
    const count = changesOf(from).length;
    const writing = value % 2 === 0 ? writeAgent(0, value) : writePlatform(0, value);
    const received = await eventually(async () => {
      const event = changesOf(from)[count];
      expect(event).toBeDefined();
      return event!;
    });
    const { status, body } = await at(1).get(effective(), { 'x-min-revision': received.idText! });
    expect(status).toBe(200);
    expect(value % 2 === 0 ? body.values.custom.value : body.values.live_band).toBe(value);
    await writing;
  }
  from.leave();
});

test('a client of one gateway has a write that the other has just answered, atLeast of its revision', async () => {
  const config = await connect({
    url: cluster.gateways[1]!.url,
    tenant: tenant.id,
    token: tenant.viewer.token!,
    context: { agentType: 'live' },
  });
  try {
    for (let value = 150; value < 160; value += 1) {
      const isOfTenant = value % 2 === 0;
      const written = revisionOf(
        await (isOfTenant ? writeAgent(0, value) : writePlatform(0, value)),
      );
      await config.atLeast(isOfTenant ? { tenant: written } : { platform: written });
      expect(isOfTenant ? config.get('custom') : config.get('live_band')).toEqual(
        isOfTenant ? { value } : value,
      );
    }
  } finally {
    await config.close();
  }
});

test('a stream that begins, and a 304, are never from before an answered write', async () => {
  for (let value = 200; value < 208; value += 1) {
    const [writer, reader] = [value % 2, (value + 1) % 2];
    const before = await at(reader).get(effective());
    const written = await (value % 3 === 0
      ? writePlatform(writer, value)
      : writeAgent(writer, value));
    const revision = revisionOf(written);
    const [from, conditional] = await Promise.all([
      stream(reader),
      at(reader).get(effective(), { 'if-none-match': before.headers.get('etag')! }),
    ]);
    expect(conditional.status).toBe(200);
    const ready = revisionsIn(await from.until(({ event }) => event === 'ready'));
    expect(value % 3 === 0 ? ready.platform : ready.tenant).toBeGreaterThanOrEqual(revision);
    from.leave();
  }
});

test('a stream continues at the other gateway with the keys that differ', async () => {
  const from = await stream(0);
  const left = (await from.until(({ event }) => event === 'ready')).idText!;
  from.leave();
  await writeAgent(1, 300);
  const resumed = await stream(1, left);
  const { data } = await resumed.until(({ event }) => event === 'effective.changed');
  expect(data.keys).toEqual(['custom']);
  resumed.leave();
});

test('a gateway that is cut off confirms nothing, and tells what it missed once it is back', async () => {
  const from = await stream(1);
  await from.until(({ event }) => event === 'ready');
  await from.until(({ event }) => event === 'heartbeat');
  const proxy = cluster.proxies[cuttable[0]]!;
  proxy.cut();
  const written = revisionOf(await writeAgent(0, 400));
  const beats = () => from.events.filter(({ event }) => event === 'heartbeat').length;
  const cutAt = beats();
  await new Promise((resolve) => setTimeout(resolve, 8000));
  expect(beats()).toBeLessThanOrEqual(cutAt + 1);
  expect(
    from.events
      .filter(({ event }) => event === 'heartbeat')
      .every((event) => revisionsIn(event).tenant < written),
  ).toBe(true);
  proxy.mend();
  const received = await eventually(async () => {
    const event = changesOf(from).at(-1);
    expect(event && revisionsIn(event).tenant).toBeGreaterThanOrEqual(written);
    return event!;
  }, 60_000);
  expect(received.data.keys).toEqual(['custom']);
  await from.until((event) => event.event === 'heartbeat' && revisionsIn(event).tenant >= written);
  from.leave();
});

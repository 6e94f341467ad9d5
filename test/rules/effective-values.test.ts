/** Streams of effective values, without services: what a gateway keeps of one tenant is bounded. */
import { afterEach, expect, test } from '@jest/globals';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { ServiceBroker } from 'moleculer';
import { ownFrames } from '../../gateway/streams/effective-frames.ts';
import { EffectiveValues } from '../../gateway/streams/effective-values.ts';
import type { EventStream } from '../../gateway/streams/event-stream.ts';
import { StreamHub } from '../../gateway/streams/stream-hub.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { gatewayCoherence } from '../support/gateway-coherence.ts';

const caller = { type: 'user', id: 'u', tenant_id: 't', roles: [], platform_roles: [] } as const;
const coherence = gatewayCoherence();
const hub = new StreamHub(
  coherence,
  liveSettings(loadSettings({ LOG_LEVEL: 'silent' }, { roles: [] }), {}, []),
);

const opened: EventStream[] = [];
afterEach(() => {
  for (const stream of opened.splice(0)) stream.end();
});

function streamOf(tenantId: string): EventStream {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  const stream = hub.take(
    { watcher: tenantId, tenantId, isFleet: true },
    {
      caller,
      requestId: 'r',
      client: {},
      timeout: () => 1000,
      recheck: () => caller,
      right: 'right',
      apiKeyId: undefined,
      headers: {},
      response,
      setHeader() {},
    },
  );
  opened.push(stream);
  return stream;
}

test('a tenant whose contexts have very many keys is refused more of them, and no other is', async () => {
  const answers = {
    nodeID: 'n',
    call: async (_action: string, { contexts }: { contexts: readonly unknown[] }) => ({
      revision: { tenant: 1, platform: 1 },
      environment: 'e',
      contexts: contexts.map(() => ({ digests: { a: '1', b: '2', c: '3', d: '4' } })),
    }),
  };
  const values = new EffectiveValues(answers as unknown as ServiceBroker, coherence, hub, 10);
  const begin = async (tenantId: string, service_id: string): Promise<EventStream> => {
    const stream = streamOf(tenantId);
    await values
      .subscribe(stream, tenantId, { service_id }, undefined, ownFrames)
      .catch((error: unknown) => {
        stream.release();
        throw error;
      });
    return stream;
  };
  const first = await begin('t', 'one');
  await begin('t', 'two');
  await begin('t', 'three');
  // What somebody watches already costs no more.
  await begin('t', 'two');
  await expect(begin('t', 'four')).rejects.toMatchObject({ type: 'rate_limited' });
  await begin('other', 'four');
  first.end();
  await begin('t', 'four');
});

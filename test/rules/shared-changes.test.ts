/** The changes of one scope, as streams that watch it together are sent them. */
import { afterEach, expect, test } from '@jest/globals';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { EventStream } from '../../gateway/streams/event-stream.ts';
import { SharedChanges, type Changes } from '../../gateway/streams/shared-changes.ts';
import { StreamHub } from '../../gateway/streams/stream-hub.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { eventually } from '../support/eventually.ts';
import { gatewayCoherence } from '../support/gateway-coherence.ts';

const caller = { type: 'user', id: 'u', tenant_id: 't', roles: [], platform_roles: [] } as const;

function createHub(): StreamHub {
  const environment = { LOG_LEVEL: 'silent' };
  return new StreamHub(
    gatewayCoherence(),
    liveSettings(loadSettings(environment, { roles: [] }), {}, []),
  );
}

const opened: EventStream[] = [];
afterEach(() => {
  for (const stream of opened.splice(0)) stream.end();
});

/** A stream that has not begun, and what its client is sent. */
function streamOf(hub: StreamHub): { stream: EventStream; events: () => string[] } {
  const message = new IncomingMessage(new Socket());
  const response = new ServerResponse(message);
  const socket = new Socket();
  let sent = '';
  socket.write = (chunk: unknown): boolean => {
    sent += String(chunk);
    return true;
  };
  response.assignSocket(socket);
  const stream = hub.take(
    { watcher: 'w', tenantId: 't', isFleet: true },
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
  return {
    stream,
    events: () =>
      [...sent.matchAll(/^id: (.*)\nevent: (.*)$/gm)].map(([, id, event]) => `${event} ${id}`),
  };
}

/** As their owner answers: each of these revisions is the last change of something. */
const changesAfter = (
  after: number | undefined,
  revisions: readonly number[],
  newest: number,
): Changes => ({
  items: revisions
    .filter((each) => after !== undefined && each > after)
    .map((revision) => ({ revision })),
  revision: newest,
});

test('what comes while a stream resumes by itself is sent to it, in whatever order the owner answers', async () => {
  const hub = createHub();
  let revisions: number[] = [];
  let newest = 5;
  const held = Promise.withResolvers<void>();
  const changes = new SharedChanges(
    hub,
    { event: 'approval.changed', showsLatestOnly: true },
    async (after) => {
      const answer = changesAfter(after, revisions, newest);
      if (after === 3) await held.promise;
      return answer;
    },
    () => true,
    () => undefined,
  );
  const { stream, events } = streamOf(hub);
  await changes.subscribe(stream, 3);
  stream.open({});
  revisions = [6];
  newest = 6;
  changes.onChange(6);
  await new Promise(setImmediate);
  held.resolve();
  await eventually(async () => expect(events()).toEqual(['ready 3', 'approval.changed 6']));
});

test.each([
  ['that are open', undefined, 7],
  ['that resume', 7, 7],
])(
  'streams %s of what shows its last change alone are told of a restore',
  async (_which, lastEventId, from) => {
    const hub = createHub();
    const restored = 1_800_000_000_000;
    const isResumed = lastEventId !== undefined;
    let newest = isResumed ? restored : 7;
    const revisions: number[] = isResumed ? [2, restored] : [2, 7];
    const changes = new SharedChanges(
      hub,
      { event: 'changeset.changed', showsLatestOnly: true },
      async (after) => changesAfter(after, revisions, newest),
      () => true,
      () => undefined,
    );
    const { stream, events } = streamOf(hub);
    await changes.subscribe(stream, lastEventId);
    stream.open({});
    newest = restored;
    changes.refresh();
    await eventually(async () => expect(events()).toEqual([`ready ${from}`, `reset ${restored}`]));
  },
);

test('a change that comes just as a read ends is sent, in whichever step of it', async () => {
  for (let steps = 1; steps < 20; steps += 1) {
    const hub = createHub();
    let newest = 5;
    const changes: SharedChanges = new SharedChanges(
      hub,
      { event: 'config.changed' },
      async (after) => {
        const items = [6, 7].filter((revision) => revision <= newest);
        const answer = changesAfter(after, items, newest);
        if (after === 5)
          void (async () => {
            for (let step = 0; step < steps; step += 1) await undefined;
            newest = 7;
            changes.onChange(7);
          })();
        return answer;
      },
      () => true,
      () => undefined,
    );
    const { stream, events } = streamOf(hub);
    await changes.subscribe(stream, undefined);
    stream.open({});
    newest = 6;
    changes.onChange(6);
    await new Promise(setImmediate);
    expect([steps, ...events()]).toEqual([
      steps,
      'ready 5',
      'config.changed 6',
      'config.changed 7',
    ]);
  }
});

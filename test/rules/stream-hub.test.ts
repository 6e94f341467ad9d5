/** What open streams cost while nothing happens does not grow with what they have in common. */
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { OwnRequest } from '../../gateway/http/own-handlers.ts';
import { StreamHub } from '../../gateway/streams/stream-hub.ts';
import type { Coherence } from '../../shared/coherence/coherence.ts';
import { sessionCacheKey } from '../../shared/contracts/auth.ts';
import { settingsReplacedKey, wholeScopeKey } from '../../shared/contracts/feed.ts';
import { memberKey } from '../../shared/contracts/members.ts';
import { authScope, memberScope } from '../../shared/contracts/revision-scopes.ts';
import { visitKey } from '../../shared/contracts/visits.ts';
import { StrataError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { gatewayCoherence } from '../support/gateway-coherence.ts';

const rights = 3;
const perRight = 1000;
const measured = { named: 0, looks: 0 };
const opened: ServerResponse[] = [];

beforeEach(() => {
  jest.useFakeTimers();
  Object.assign(measured, { named: 0, looks: 0 });
});
afterEach(() => {
  for (const response of opened.splice(0)) response.emit('close');
  jest.useRealTimers();
});

function createHub(): StreamHub {
  return hubAndCoherence().hub;
}

function hubAndCoherence(): { readonly hub: StreamHub; readonly coherence: Coherence } {
  const environment = {
    LOG_LEVEL: 'silent',
    WATCH_MAX_STREAMS: '50000',
    WATCH_MAX_STREAMS_PER_TENANT: '25000',
  };
  const coherence = gatewayCoherence();
  const settings = liveSettings(loadSettings(environment, { roles: [] }), {}, []);
  return { hub: new StreamHub(coherence, settings), coherence };
}

function requestWith(right: string, isLost = false): OwnRequest {
  const message = new IncomingMessage(new Socket());
  const response = new ServerResponse(message);
  opened.push(response);
  const caller = {
    type: 'user' as const,
    id: right,
    tenant_id: 'tenant',
    roles: [],
    platform_roles: [],
  };
  return {
    caller,
    requestId: 'r',
    client: {},
    timeout: () => 1000,
    recheck() {
      measured.looks += 1;
      return isLost ? Promise.reject(new StrataError('insufficient_role')) : caller;
    },
    get right() {
      measured.named += 1;
      return ['watch', right].join('\n');
    },
    apiKeyId: undefined,
    headers: {},
    response,
    setHeader() {},
  };
}

function openAll(hub: StreamHub): void {
  for (let each = 0; each < rights * perRight; each += 1) {
    const right = `of ${each % rights}`;
    hub.take({ watcher: right, tenantId: right, isFleet: true }, requestWith(right));
  }
}

test('a right is named once for each stream, and looked at some times in 15 s, however many have it', async () => {
  const hub = createHub();
  openAll(hub);
  expect(hub.size).toBe(rights * perRight);
  expect(measured).toEqual({ named: rights * perRight, looks: 0 });
  await jest.advanceTimersByTimeAsync(15_100);
  expect(measured.named).toBe(rights * perRight);
  expect(measured.looks).toBe(10 * rights);
});

test('what has been looked at together ends together, with nothing left', async () => {
  const hub = createHub();
  openAll(hub);
  for (const response of opened.splice(0)) response.emit('close');
  expect(hub.size).toBe(0);
  openAll(hub);
  await jest.advanceTimersByTimeAsync(15_100);
  expect(measured.looks).toBe(10 * rights);
});

test('a stream whose client has hung up, before it or its turn on the connection came, leaves nothing', () => {
  const hub = createHub();
  const holder = { watcher: 'w', tenantId: null, isFleet: false };
  const request = requestWith('gone');
  request.response.req.socket.destroy();
  hub.take(holder, request).open({});
  expect(hub.size).toBe(0);
  const pipelined = requestWith('waits');
  hub.take(holder, pipelined).open({});
  expect(hub.size).toBe(1);
  pipelined.response.req.socket.emit('close');
  expect(hub.size).toBe(0);
});

test('a turn of many streams lets requests be answered in between', async () => {
  const hub = createHub();
  for (let time = 0; time < 3; time += 1) openAll(hub);
  await jest.advanceTimersByTimeAsync(15_100);
  // 900 streams in each of 10 turns, 500 in one go, whose rights are looked at again.
  expect(measured.looks).toBe(2 * 10 * rights);
});

test('a stream whose right is gone ends, also where somebody has to be asked', async () => {
  const hub = createHub();
  for (const isLost of [true, false])
    hub.take(
      { watcher: 'one', tenantId: 'tenant', isFleet: true },
      requestWith(`lost: ${isLost}`, isLost),
    );
  await jest.advanceTimersByTimeAsync(15_100);
  expect(hub.size).toBe(1);
});

test('a sign-out costs nothing at 10,000 streams of others, and ends its own', async () => {
  const { hub, coherence } = hubAndCoherence();
  const tenant_id = randomUUID();
  const people = Array.from({ length: 10_001 }, () => ({
    id: randomUUID(),
    session_id: randomUUID(),
  }));
  const lost = new Set<string>();
  for (const { id, session_id } of people) {
    const request = requestWith(id);
    const caller = { ...request.caller, id, tenant_id, session_id };
    const recheck = () => {
      measured.looks += 1;
      if (lost.has(id)) throw new StrataError('auth_session_revoked');
      return caller;
    };
    const holder = { watcher: id, tenantId: tenant_id, isFleet: false };
    hub.take(holder, { ...request, right: id, caller, recheck });
  }
  const change = async (scope: string, revision: number, ...keys: string[]) => {
    coherence.apply({ id: String(revision), scope, revision, keys });
    await jest.advanceTimersByTimeAsync(0);
  };
  const [first, second] = people as [(typeof people)[0], (typeof people)[0]];
  lost.add(first.id);
  await change(authScope, 1, sessionCacheKey(first));
  expect({ size: hub.size, looks: measured.looks }).toEqual({ size: 10_000, looks: 1 });
  await change(authScope, 2, sessionCacheKey({ session_id: randomUUID() }));
  expect(measured.looks).toBe(1);

  // The same for a membership; what concerns all members of the tenant is looked at for all.
  lost.add(second.id);
  await change(memberScope(tenant_id), 1, memberKey({ tenant_id, user_id: second.id }));
  expect({ size: hub.size, looks: measured.looks }).toEqual({ size: 9999, looks: 2 });
  await change(memberScope(randomUUID()), 1, wholeScopeKey);
  expect(measured.looks).toBe(2);
  await change(memberScope(tenant_id), 2, wholeScopeKey);
  await jest.advanceTimersByTimeAsync(100);
  expect(measured.looks).toBe(2 + 9999);
  await change(authScope, 3, settingsReplacedKey);
  await jest.advanceTimersByTimeAsync(100);
  expect(measured.looks).toBe(2 + 2 * 9999);
});

test('the stream of a visitor ends with the visit, not with the next look at all rights', async () => {
  const { hub, coherence } = hubAndCoherence();
  const [tenant_id, user_id] = [randomUUID(), randomUUID()];
  const visit = { id: randomUUID(), until: new Date(Date.now() + 60_000).toISOString() };
  const request = requestWith('visitor', true);
  const caller = { ...request.caller, id: user_id, tenant_id, visit };
  hub.take(
    { watcher: user_id, tenantId: tenant_id, isFleet: false },
    { ...request, right: 'visitor', caller },
  );
  const keys = [visitKey({ tenant_id, user_id })];
  coherence.apply({ id: '1', scope: memberScope(tenant_id), revision: 1, keys });
  await jest.advanceTimersByTimeAsync(0);
  expect(hub.size).toBe(0);
});

/** How events are written for receivers that know a format of others. */
import { expect, test } from '@jest/globals';
import { CloudEvent } from 'cloudevents';
import { eventFormats } from '../../services/audit/rules/event-formats.ts';
import type { EventBatch } from '../../services/audit/stores/event-batches.ts';
import { problemsOfOcsf } from '../support/ocsf.ts';
import { verdict, verifiers } from '../support/verifiers.ts';

const chain = '3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d';
const to = { chain, name: 'siem' };
const hash = 'ab'.repeat(32);

function written(action: string, more: object = {}): Record<string, unknown> {
  const event = {
    id: '0d5e8a1b-2c3d-4f0e-9b6c-3f9d1c527a41',
    action,
    actor: { type: 'user', id: 'ada' },
    tenant_id: chain,
    target: 'checkout',
    payload: { revision: 7 },
    request_id: 'req-1',
    occurred_at: '2026-11-26T08:00:00.250Z',
    seq: 12,
    hash,
    previous: hash,
    ...more,
  };
  const batch = { lines: [event] } as unknown as EventBatch;
  const [ocsf] = JSON.parse(eventFormats.ocsf.batch('evt_1', to, batch)) as [object];
  expect(problemsOfOcsf(ocsf)).toBeNull();
  return ocsf as Record<string, unknown>;
}

test('an event is an API Activity of OCSF, with its line beside', () => {
  expect(written('config.risk.updated')).toMatchObject({
    activity_id: 3,
    type_uid: 600_303,
    time: Date.parse('2026-11-26T08:00:00.250Z'),
    actor: { user: { uid: 'ada', type_id: 1 } },
    api: { operation: 'config.risk.updated' },
    resources: [{ uid: 'checkout' }],
    metadata: { sequence: 12, correlation_uid: 'req-1', tenant_uid: chain },
    unmapped: { seq: 12, hash, payload: { revision: 7 } },
  });
});

test.each([
  ['tenant.member_invited', 1],
  ['config.agent.created', 1],
  ['audit.exported', 2],
  ['config.risk.rolled_back', 3],
  ['auth.api_key.revoked', 4],
  ['automation.denied', 99],
])('%s is the activity %d of OCSF', (action, activity) => {
  const { activity_id: id, activity_name: name } = written(action);
  expect([id, name]).toEqual([activity, activity === 99 ? action : undefined]);
});

test('what has no target or request, what is skipped, and a test are of OCSF, too', () => {
  const nameless = written('x.y', {
    target: null,
    request_id: null,
    actor: { type: 'system', id: 'audit' },
  });
  expect(nameless.resources).toBeUndefined();
  const line = { skipped: 'filtered', from: 3, seq: 9, hash, previous: hash };
  const batch = { lines: [line] } as unknown as EventBatch;
  const [skipped] = JSON.parse(eventFormats.ocsf.batch('evt_2', to, batch)) as [object];
  expect(problemsOfOcsf(skipped)).toBeNull();
  expect(skipped).toMatchObject({ api: { operation: 'audit.skipped' }, unmapped: line });
  const [tried] = JSON.parse(eventFormats.ocsf.test('evt_3', to)) as [object];
  expect(problemsOfOcsf(tried)).toBeNull();
});

test('a checkpoint in each format has its note, and verifiers of lines pass it over', async () => {
  const checkpoint = {
    chain,
    seq: 12,
    hash,
    made_at: '2026-11-26T09:00:00.012Z',
    note: 'strata/audit/checkpoint/v1\n…\n',
  };
  const textAs = (format: keyof typeof eventFormats): string =>
    eventFormats[format].checkpoints('evt_4', to, [checkpoint]);
  expect(JSON.parse(textAs('standard'))).toMatchObject({
    type: 'audit.checkpoints',
    id: 'evt_4',
    data: { chain, destination: 'siem', checkpoints: [checkpoint] },
  });
  const [ocsf] = JSON.parse(textAs('ocsf')) as [object];
  expect([problemsOfOcsf(ocsf), ocsf]).toMatchObject([null, { unmapped: checkpoint }]);
  const [event] = JSON.parse(textAs('cloudevents')) as [CloudEvent<object>];
  expect(new CloudEvent(event).validate()).toBe(true);
  expect(event).toMatchObject({ type: 'strata.audit.checkpoint', data: checkpoint });
  const line = JSON.parse(textAs('ndjson')) as object;
  expect(line).toEqual({ checkpoint: checkpoint.note });
  for (const verifier of verifiers)
    expect(await verdict(verifier, [line], ['12', hash])).toBe(`whole: 12 ${hash}`);
});

test('what is no such event is said to be none', () => {
  const good = written('config.risk.updated');
  expect(problemsOfOcsf({ ...good, type_uid: 1 })).toBe('type_uid is 1');
  expect(problemsOfOcsf({ ...good, ours: 1 })).not.toBeNull();
  expect(problemsOfOcsf({ ...good, actor: {} })).not.toBeNull();
});

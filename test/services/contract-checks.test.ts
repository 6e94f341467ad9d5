/**
 * The contract middleware on the node that owns an action: what comes in, and what goes out, is
 * what the contract says.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { serviceCaller } from '../../shared/access.ts';
import { createNode } from '../../shared/node/broker.ts';
import type { Request } from '../../shared/contract-runtime/request.ts';
import { NoAnswerError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';

const settings = loadSettings({ LOG_LEVEL: 'silent' }, { roles: [] });
const { broker } = createNode({ settings: liveSettings(settings, {}, []) });
/** What the stand-in for the service answers next, and what it was asked. */
const fake = {
  answer: [] as unknown,
  asked: [] as unknown[],
  onAppend: (_request: Request): void => {},
};

beforeAll(async () => {
  broker.createService({
    name: 'audit',
    actions: {
      append({ params, locals }: { params: unknown; locals: Record<string, unknown> }) {
        fake.asked.push(params);
        fake.onAppend(locals.request as Request);
        return fake.answer;
      },
    },
  });
  const slowly = (): Promise<null> => delay(500, null);
  broker.createService({ name: 'global-config', actions: { layers: slowly } });
  broker.createService({ name: 'auth', actions: { 'invitations.end': slowly } });
  await broker.start();
});
afterAll(() => broker.stop());

const append = (body: unknown) =>
  broker.call('audit.append', { body }, { meta: { caller: serviceCaller('test') } });

test('parameters that the contract does not know never reach the handler', async () => {
  fake.answer = { recorded: 0 };
  await expect(append([])).resolves.toEqual({ recorded: 0 });
  const before = fake.asked.length;
  await expect(append([{ action: 'x', unknown: true }])).rejects.toMatchObject({
    type: 'validation_failed',
  });
  await expect(append('none')).rejects.toMatchObject({ type: 'validation_failed' });
  expect(fake.asked).toHaveLength(before);
});

test('a field that the contract does not name is not answered, with nothing of it in the error', async () => {
  fake.answer = { recorded: 0, password_hash: 'canary' };
  const error = await append([]).then(
    () => undefined,
    (failure: Error & { type?: string }) => failure,
  );
  expect(error?.type).toBe('internal_error');
  expect(`${error?.stack} ${JSON.stringify(error)}`).not.toContain('canary');
});

test('a handler can ask before it commits what the middleware would refuse afterwards', async () => {
  const evaluated: string[] = [];
  fake.onAppend = ({ checkAnswer }) => {
    for (const answer of [{ recorded: 0 }, { recorded: 0, password_hash: 'canary' }]) {
      try {
        checkAnswer(answer);
        evaluated.push('allowed');
      } catch {
        evaluated.push('refused');
      }
    }
  };
  fake.answer = { recorded: 0 };
  await append([]);
  expect(evaluated).toEqual(['allowed', 'refused']);
});

describe('where no one answers, a caller hears a code of ours and nothing of Moleculer', () => {
  const meta = { caller: serviceCaller('test') };
  const user_id = randomUUID();
  test.each<[string, () => Promise<unknown>, string, RegExp]>([
    [
      'no node has the action',
      () => broker.call('tenant-config.members.of', { user_id }, { meta }),
      'service_unavailable',
      /^No node that could answer is connected. Try again.$/,
    ],
    [
      'the named node is unknown',
      () => broker.call('cluster.node.health', {}, { meta, nodeID: 'no one-7' }),
      'service_unavailable',
      /^No node that could answer is connected. Try again.$/,
    ],
    [
      'there is no such action',
      () => broker.call('no.such', {}, { meta }),
      'service_unavailable',
      /^No node that could answer is connected. Try again.$/,
    ],
    [
      'a read takes too long',
      () => broker.call('global-config.layers', {}, { meta, timeout: 50 }),
      'timeout',
      /^The request took too long.$/,
    ],
    [
      'a write takes too long',
      () =>
        broker.call('auth.invitations.end', { tenant_id: user_id, user_id }, { meta, timeout: 50 }),
      'timeout',
      /^No answer came, so the request may have been carried out/,
    ],
  ])('%s', async (_what, call, type, message) => {
    const error = await call().catch((failure: unknown) => failure);
    expect(error).toBeInstanceOf(NoAnswerError);
    expect(error).toMatchObject({ type, message: expect.stringMatching(message) });
  });
});

/** The contract middleware on the node that owns an action: what comes in, and what goes out, is what the contract says. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { serviceCaller } from '../../shared/access.ts';
import { createNode } from '../../shared/cluster/broker.ts';
import type { Request } from '../../shared/cluster/request.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { loadSettings } from '../../shared/settings.ts';

const settings = loadSettings({ LOG_LEVEL: 'silent' }, { pieces: [] });
const { broker } = createNode({ settings: liveSettings(settings, {}, []) });
/** What the stand-in for the service answers next, and what it was asked. */
const standIn = {
  answer: [] as unknown,
  asked: [] as unknown[],
  onAppend: (_request: Request): void => {},
};

beforeAll(async () => {
  broker.createService({
    name: 'audit',
    actions: {
      append({ params, locals }: { params: unknown; locals: Record<string, unknown> }) {
        standIn.asked.push(params);
        standIn.onAppend(locals.request as Request);
        return standIn.answer;
      },
    },
  });
  await broker.start();
});
afterAll(() => broker.stop());

const append = (body: unknown) =>
  broker.call('audit.append', { body }, { meta: { caller: serviceCaller('test') } });

test('parameters that the contract does not know never reach the handler', async () => {
  standIn.answer = { recorded: 0 };
  await expect(append([])).resolves.toEqual({ recorded: 0 });
  const before = standIn.asked.length;
  await expect(append([{ action: 'x', unknown: true }])).rejects.toMatchObject({
    type: 'validation_failed',
  });
  await expect(append('none')).rejects.toMatchObject({ type: 'validation_failed' });
  expect(standIn.asked).toHaveLength(before);
});

test('a field that the contract does not name is not answered, with nothing of it in the error', async () => {
  standIn.answer = { recorded: 0, password_hash: 'canary' };
  const error = await append([]).then(
    () => undefined,
    (failure: Error & { type?: string }) => failure,
  );
  expect(error?.type).toBe('internal_error');
  expect(`${error?.stack} ${JSON.stringify(error)}`).not.toContain('canary');
});

test('a handler can ask before it commits what the middleware would refuse afterwards', async () => {
  const judged: string[] = [];
  standIn.onAppend = ({ checkAnswer }) => {
    for (const answer of [{ recorded: 0 }, { recorded: 0, password_hash: 'canary' }]) {
      try {
        checkAnswer(answer);
        judged.push('allowed');
      } catch {
        judged.push('refused');
      }
    }
  };
  standIn.answer = { recorded: 0 };
  await append([]);
  expect(judged).toEqual(['allowed', 'refused']);
});

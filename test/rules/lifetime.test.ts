import { describe, expect, test } from '@jest/globals';
import { Interrupted, Lifetime } from '../../shared/process/lifetime.ts';

describe('what was opened is closed', () => {
  test('last opened, first closed, once; what cannot be closed keeps nothing open', async () => {
    const lifetime = new Lifetime();
    const closed: string[] = [];
    const failure = new Error('stuck');
    for (const name of ['database', 'stuck', 'gateway'])
      lifetime.closeWith(async () => {
        closed.push(name);
        if (name === 'stuck') throw failure;
      });
    const [first, second] = [lifetime.end(), lifetime.end()];
    expect([await first, await second]).toEqual([[failure], [failure]]);
    expect(closed).toEqual(['gateway', 'stuck', 'database']);
  });
});

test('a signal ends the wait for a step', async () => {
  const lifetime = new Lifetime();
  const step = lifetime.whileWanted(() => new Promise(() => {}));
  lifetime.interrupt();
  await expect(step).rejects.toBeInstanceOf(Interrupted);
  await expect(lifetime.whileWanted(async () => 1)).rejects.toBeInstanceOf(Interrupted);
});

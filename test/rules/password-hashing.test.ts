/**
 * Hashing passwords: bounded and shared out, so that a burst keeps out only whoever sends it, and
 * blind to compatibility forms.
 */
import { describe, expect, test } from '@jest/globals';
import { createHashingQueue } from '../../services/auth/passwords/hashing-queue.ts';
import {
  createPasswordHashing,
  needsRehash,
} from '../../services/auth/passwords/password-hashing.ts';

const password = 'grapefruit lamp seventy';

test('one hashes in the slot, three wait in the queue, the rest are refused; afterwards it continues', async () => {
  const hashing = createPasswordHashing({ concurrency: 1, queueLimit: 3 });
  const stored = await hashing.hash(password, 'here');
  const verifications = Array.from({ length: 10 }, () => hashing.verify(stored, password, 'here'));
  const outcomes = await Promise.allSettled(verifications);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  const verified = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value);
  expect([verified.length, refused.length]).toEqual([4, 6]);
  for (const { reason } of refused)
    expect(reason).toMatchObject({ type: 'service_unavailable', code: 503 });
  expect(await hashing.verify(stored, password, 'here')).toBe(true);
});

describe('the queue is shared out over networks', () => {
  const options = { concurrency: 1, queueLimit: 6, shareLimit: 4 };
  /**
   * Asks for a turn for each letter, which stands for a network, all at once. Who was served, in
   * order, and who was refused.
   */
  async function queueUp(networks: string) {
    const inTurn = createHashingQueue(options);
    let served = '';
    const outcomes = await Promise.allSettled(
      [...networks].map((network) =>
        inTurn(network, async () => {
          served += network;
        }),
      ),
    );
    const refused = outcomes.flatMap(({ status }, index) =>
      status === 'rejected' ? networks[index]! : [],
    );
    return { served, refused: refused.join('') };
  }

  test('they take turns, so a newcomer does not wait behind a flood', async () => {
    expect(await queueUp('aaaab')).toEqual({ served: 'aabaa', refused: '' });
    expect(await queueUp('aaaabbc')).toEqual({ served: 'aabcaba', refused: '' });
  });

  test('one network has its share and no more', async () => {
    expect(await queueUp('aaaaaaaaaab')).toEqual({ served: 'aabaaa', refused: 'aaaaa' });
  });

  test('where the queue is full, whoever has the most in it gives way to whoever has fewer', async () => {
    expect(await queueUp('aaaaabbc')).toEqual({ served: 'aabcaba', refused: 'a' });
    expect(await queueUp('aaaabbbcd')).toEqual({ served: 'aabcdab', refused: 'ab' });
    expect(await queueUp('abcdefgh')).toEqual({ served: 'abcdefg', refused: 'h' });
  });

  test('a network makes no one give way who has not more than it would have', async () => {
    expect(await queueUp('aaaabbbb')).toEqual({ served: 'aababab', refused: 'b' });
  });

  test('work that fails leaves its turn to the next', async () => {
    const inTurn = createHashingQueue(options);
    const failing = inTurn('a', () => Promise.reject(new Error('no hash')));
    const next = inTurn('a', async () => 'served');
    await expect(failing).rejects.toThrow('no hash');
    expect(await next).toBe('served');
  });
});

test('compatibility forms are one password; other letters are another', async () => {
  const hashing = createPasswordHashing();
  const stored = await hashing.hash('ﬁve Ångström ①', 'here');
  expect(await hashing.verify(stored, 'five A\u030angstro\u0308m 1', 'here')).toBe(true);
  expect(await hashing.verify(stored, 'five angstrom 1', 'here')).toBe(false);
});

test('no account matches nothing, not even the password that takes the place of its hash', async () => {
  const hashing = createPasswordHashing();
  expect(await hashing.verify(null, 'a password that no one has', 'here')).toBe(false);
});

test('a hash made with other parameters is to be made again', async () => {
  const stored = await createPasswordHashing().hash(password, 'here');
  expect(needsRehash(stored)).toBe(false);
  expect(needsRehash(stored.replace('t=2', 't=1'))).toBe(true);
});

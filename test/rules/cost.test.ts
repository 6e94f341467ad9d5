/**
 * What a body costs grows with its length and no faster: else one request could hold a node for
 * seconds.
 */
import { describe, expect, test } from '@jest/globals';
import { bindingHash, intentOf } from '../../services/notifier/rules/authzen.ts';
import type { Question } from '../../shared/contracts/access.ts';
import { heldOf } from '../../shared/node/cluster-service.ts';
import { diff } from '../../shared/schema/diff.ts';
import { InexactJson, parseExactJson } from '../../shared/schema/exact-json.ts';
import { costsOf, growth, mostGrowth } from '../support/cost.ts';
import { hostileJson } from '../support/hostile-json.ts';

/** What parsing answers: nothing, or the problems as they would be sent. */
function answerTo(text: string): string {
  try {
    parseExactJson(text);
    return '';
  } catch (error) {
    if (error instanceof InexactJson) return JSON.stringify(error.problems);
    throw error;
  }
}

describe.each(Object.entries(hostileJson))('%s', (_name, textOf) => {
  test('costs no more to read than its length', () => {
    const workOn = (bytes: number) => {
      const text = textOf(bytes);
      return () => {
        answerTo(text);
      };
    };
    expect(growth(60_000, workOn)).toBeLessThanOrEqual(mostGrowth);
  });

  test('is answered with at most 64 KiB of problems', () => {
    expect(Buffer.byteLength(answerTo(textOf(400_000)))).toBeLessThanOrEqual(64 * 1024);
  });
});

test('what questions of AuthZEN have in common is worked through once for them', () => {
  const names = Array.from({ length: 5000 }, (_each, index) => [
    `${index}${'n'.repeat(50)}`,
    index,
  ]);
  const properties = { risk_level: 'low', ...Object.fromEntries(names) };
  const text = JSON.stringify({
    subject: { type: 'user', id: '1' },
    action: { name: 'scale', properties },
    resource: { type: 'cloud_run', id: 'checkout', properties },
  });
  const readingOf = (count: number) => () => {
    const shared = JSON.parse(text) as Question;
    for (let each = 0; each < count; each += 1) {
      const question = { ...shared };
      intentOf(question);
      bindingHash(question);
    }
  };
  const [one, many] = costsOf(readingOf(1), readingOf(100));
  expect(many).toBeLessThanOrEqual(mostGrowth * one!);
});

test('comparing documents costs no more where the difference lies deep', () => {
  const items = Array.from({ length: 10_000 }, (_, index) => index);
  const nested = (depth: number, last: string): unknown =>
    JSON.parse(`${'{"inner":'.repeat(depth)}[${items},"${last}"]${'}'.repeat(depth)}`);
  const comparisonAt = (depth: number) => {
    const before = nested(depth, 'before');
    const after = nested(depth, 'after');
    return () => expect(diff(before, after)).toHaveLength(1);
  };
  const [flat, deep] = costsOf(comparisonAt(1), comparisonAt(60));
  expect(deep).toBeLessThanOrEqual(3 * flat!);
});

test('comparing documents costs no more where the names around the differences are long', () => {
  const under = (length: number, value: number): unknown => ({
    ['n'.repeat(length)]: Object.fromEntries(
      Array.from({ length: 3000 }, (_each, index) => [`m${index}`, value]),
    ),
  });
  const work = (length: number) => {
    const [before, after] = [under(length, 1), under(length, 2)];
    return () => {
      JSON.stringify(diff(before, after));
    };
  };
  const [short, long] = costsOf(work(10), work(50_000));
  expect(long).toBeLessThanOrEqual(5 * short!);
});

test('dropping a thousand named entries costs no more than naming one', () => {
  const keyOf = (index: number): string => `agent_config_${index}_cost_optimizer`;
  const held = Array.from({ length: 20_000 }, (_each, index) => keyOf(index));
  const dropping = (count: number) => {
    const named = Array.from({ length: count }, (_each, index) => keyOf(19_999 - index));
    return () => expect(heldOf(named, held)).toHaveLength(count);
  };
  const [one, thousand] = costsOf(dropping(1), dropping(1000));
  expect(thousand).toBeLessThanOrEqual(5 * one!);
});

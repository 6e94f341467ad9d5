/**
 * G7: what a body costs to read and to judge grows with its length and no faster, for every route
 * that takes one.
 */
import { describe, expect, test } from '@jest/globals';
import type { TSchema } from 'typebox';
import { restRoutes } from '../../gateway/http/rest.ts';
import { InexactJson, parseExactJson } from '../../shared/schema/exact-json.ts';
import { problemsOf } from '../../shared/schema/validate.ts';
import { mostGrowth, quickCost } from '../support/cost.ts';
import { firstNumber, hostileBodies, type HostileBody } from '../support/hostile-bodies.ts';

/**
 * Bytes of the smaller body. What is quadratic shows at this size, and a run of all of them stays
 * short.
 */
const small = 6000;
/**
 * Microseconds of the larger body that need no comparison, which would measure the clock: what grew
 * with the square of 24,000 characters would take hundreds of times as long.
 */
const negligible = 1000;

/** What the gateway does with a body before an action sees it. */
function evaluate(schema: TSchema, text: string): void {
  try {
    problemsOf(schema, parseExactJson(text));
  } catch (error) {
    if (!(error instanceof InexactJson)) throw error;
  }
}

/**
 * How many times as much one body costs at four times the length. It is compared with four
 * different bodies of the length, so that both sides take the same room in the processor's caches.
 * A quick look that finds it cheap is enough: chance makes the larger body look dear, a collection
 * of garbage for one, and never cheap.
 */
function growthOf(schema: TSchema, textOf: HostileBody): number {
  const larger = textOf(4 * small);
  const evaluateLarger = () => evaluate(schema, larger);
  let cost = quickCost(evaluateLarger, negligible);
  if (cost < negligible) return 1;
  const smaller = [1, 2, 3, 4].map((part) => textOf(small, part * firstNumber));
  const evaluateSmaller = () => smaller.forEach((text) => evaluate(schema, text));
  for (let look = 0, least = Infinity; ; look += 1, cost = quickCost(evaluateLarger)) {
    least = Math.min(least, (4 * cost) / quickCost(evaluateSmaller));
    if (look === 20 || least <= mostGrowth) return least;
  }
}

/** The schemas of bodies and inside them that have been judged; most routes share theirs. */
const evaluated = new Set<string>();
const bodies = restRoutes.flatMap(({ contract, rest }): [string, TSchema][] => {
  const body = contract.params.properties.body as TSchema | undefined;
  return body ? [[`${rest.method} ${rest.path}`, body]] : [];
});

describe.each(bodies)('%s', (_route, schema) => {
  test('no shape of body costs more than its length', () => {
    const tooCostly: string[] = [];
    for (const [name, textOf] of hostileBodies(schema, evaluated)) {
      const times = growthOf(schema, textOf);
      if (times > mostGrowth) tooCostly.push(`${name}: ${times.toFixed(1)} times`);
    }
    expect(tooCostly).toEqual([]);
  });
});

/**
 * Reads that any node answers by itself from its memory of another, cached one, without asking the
 * service that has the rules.
 *
 * | Question                                | Answered                                                               |
 * |-----------------------------------------|------------------------------------------------------------------------|
 * | asked before, of an entry that is fresh | as before: the answer is remembered beside the entry                   |
 * | another one of the same entry           | by the rules, from the entry                                           |
 * | of what this node has not in memory     | by the rules, once the other read has loaded it; stale where that is   |
 * | that the rules leave to the service     | by the service                                                         |
 */
import type { ActionName, ParamsOf, ResultOf } from '../contracts/index.ts';
import { freezeAndMeasure, type CachedEntry } from '../coherence/entry.ts';

/**
 * An answer, and whether it holds as long as what it was derived from does; one that looks at the
 * clock does not.
 */
export interface Derived<Answer> {
  readonly answer: Answer;
  readonly isLasting: boolean;
}

export interface DerivedRead<A extends ActionName, From extends ActionName> {
  /** A cached read. */
  readonly from: From;
  /** The parameters of that read. */
  question(params: ParamsOf<A>): ParamsOf<From>;
  /** Undefined where the service has to be asked. Throws what the action would. */
  derive(params: ParamsOf<A>, value: ResultOf<From>): Derived<ResultOf<A>> | undefined;
}

/**
 * For whoever goes by an action's name: each as any derived read, whose parameters have passed the
 * contract's schema.
 */
export interface AnyDerivedRead {
  readonly from: ActionName;
  question(params: unknown): Readonly<Record<string, unknown>>;
  derive(params: unknown, value: unknown): Derived<unknown> | undefined;
}

export type DerivedReads = { readonly [A in ActionName]?: AnyDerivedRead };

type Fields = Readonly<Record<string, unknown>>;

interface Remembered {
  readonly name: string;
  readonly params: Fields;
  readonly entry: CachedEntry<unknown>;
  readonly answer: unknown;
}

/** Places for answers, each of some hundred bytes. A power of two. */
const places = 4096;

/**
 * The answers that were derived last: each question has one place, where another one may replace
 * it. Parameters are the same only if each field is, so those of a repeated question are valid.
 */
export class RememberedAnswers {
  readonly #places: (Remembered | undefined)[] = Array.from({ length: places });

  /**
   * The answer to exactly this question, while the entry that it was derived from is fresh at `now`
   * (performance.now()).
   */
  find(name: string, params: Fields, now: number): unknown {
    const remembered = this.#places[placeOf(params)];
    if (!remembered || remembered.name !== name || !isSame(params, remembered.params))
      return undefined;
    if (!remembered.entry.isFresh(now)) return undefined;
    remembered.entry.recordHit(now);
    return remembered.answer;
  }

  /** The answer is frozen, because everybody who asks the same is given it. */
  remember(name: string, params: Fields, entry: CachedEntry<unknown>, answer: unknown): void {
    freezeAndMeasure(answer);
    const own = copyOf(params);
    this.#places[placeOf(own)] = { name, params: own, entry, answer };
  }
}

/** The same for the same parameters. */
const placeOf = (params: Fields): number => hashOf(params) & (places - 1);

/** Of a text it looks at a few characters only: hashing all would cost more than the answer. */
function hashOf(value: unknown): number {
  if (typeof value === 'number') return mixed(Math.trunc(value * 1024));
  if (isObject(value)) {
    let hash = 0;
    for (const field in value) hash = Math.imul(hash, 31) + hashOf(value[field]);
    return mixed(hash);
  }
  if (typeof value !== 'string') return value === true ? 1 : 0;
  const { length } = value;
  const ends = value.charCodeAt(0) + 7 * value.charCodeAt(length - 1);
  return length + ends + 61 * value.charCodeAt(length >> 1) + 211 * value.charCodeAt(length - 2);
}

/** Spreads numbers that differ little over all bits: the finalizer of MurmurHash3. */
function mixed(number: number): number {
  const first = Math.imul(number ^ (number >>> 16), 0x85ebca6b);
  const second = Math.imul(first ^ (first >>> 13), 0xc2b2ae35);
  return second ^ (second >>> 16);
}

const copyOf = (params: Fields): Fields =>
  Object.fromEntries(
    Object.entries(params).map(([field, value]) => [
      field,
      isObject(value) ? copyOf(value) : value,
    ]),
  );

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;

function isSame(given: Fields, known: Fields): boolean {
  let fields = 0;
  for (const field in given) {
    const value = given[field];
    const other = known[field];
    const isEqual = value === other || (isObject(value) && isObject(other) && isSame(value, other));
    if (!isEqual) return false;
    fields += 1;
  }
  for (const _field in known) fields -= 1;
  return fields === 0;
}

import { describe, expect, test } from '@jest/globals';
import { CoherentCache, type CacheOptions, type Load } from '../../shared/coherence/cache.ts';
import type { Loaded } from '../../shared/coherence/entry.ts';
import fc, { runs } from '../support/properties.ts';

const outage = Object.assign(new Error('the owner is away'), { outage: true });
const isOutage = (error: unknown): boolean => error === outage;
const tenant = 'tenant:a';
const platform = 'platform';

/** A cache whose clock and lease are the test's: `node.now` and `node.hasLease`. */
function setUp(options: Partial<CacheOptions> = {}) {
  const node = { now: 1_000, hasLease: true };
  const cache = new CoherentCache({
    ttlMs: () => 100,
    maxEntries: 10,
    maxBytes: 100_000,
    floorTtlMs: 500,
    hasLease: () => node.hasLease,
    isOutage,
    now: () => node.now,
    ...options,
  });
  /**
   * A read that begins now. If it began a load, `started` has what the load was told to include,
   * and the test ends it with `end` or `fail`.
   */
  const begin = (key = 'k', options?: { min: Record<string, number> }, scopes = [tenant]) => {
    const load = Promise.withResolvers<Loaded<unknown>>();
    const started: Record<string, number>[] = [];
    const answer = cache.read(
      key,
      scopes,
      (minAsOf) => {
        started.push(minAsOf);
        return load.promise;
      },
      options,
    );
    // A test that awaits them sees their errors. Where nobody does, they are no unhandled
    // rejections.
    for (const promise of [answer, load.promise]) promise.catch(() => undefined);
    return {
      answer,
      started,
      end: (value: unknown, revision: number) =>
        load.resolve({ value, asOf: { [tenant]: revision } }),
      fail: load.reject,
    };
  };
  /** A read whose load, if it needs one, ends at once. */
  const read = (value: unknown, revision: number, key = 'k') =>
    cache.read(key, [tenant], async () => ({ value, asOf: { [tenant]: revision } }));
  return { cache, node, begin, read };
}

describe('hits', () => {
  test('an entry answers until it expires', async () => {
    const { cache, node, read } = setUp();
    await expect(read('old', 1)).resolves.toEqual({
      value: 'old',
      asOf: { [tenant]: 1 },
      hit: false,
      stale: false,
    });
    await expect(read('new', 2)).resolves.toMatchObject({ value: 'old', hit: true });
    expect(cache.get('k')).toMatchObject({ value: 'old' });
    node.now += 100;
    expect(cache.get('k')).toBeUndefined();
    await expect(read('new', 2)).resolves.toMatchObject({ value: 'new', hit: false });
    expect(cache.stats()).toMatchObject({ hits: 2, misses: 2, entries: 1 });
  });

  test('an absent value is kept until it is created', async () => {
    const { cache, read } = setUp();
    await read(null, 1);
    await expect(read('created', 2)).resolves.toMatchObject({ value: null, hit: true });
    expect(cache.drop(['k'], tenant, 2)).toBe(1);
    await expect(read('created', 2)).resolves.toMatchObject({ value: 'created', hit: false });
  });

  test('a reader who needs a later revision gets a load that is told so', async () => {
    const { begin, read } = setUp();
    await read('one', 1);
    const satisfied = begin('k', { min: { [tenant]: 1 } });
    await expect(satisfied.answer).resolves.toMatchObject({ value: 'one', hit: true });
    const demanding = begin('k', { min: { [tenant]: 2 } });
    expect(demanding.started).toEqual([{ [tenant]: 2 }]);
    demanding.end('two', 2);
    await expect(demanding.answer).resolves.toMatchObject({ value: 'two', hit: false });
  });

  test('what is kept is frozen all the way down', async () => {
    const { cache, read } = setUp();
    const deepest = { limit: 1 };
    const value = { list: [{ deepest }] };
    const found = await read(value, 1);
    expect(() => {
      deepest.limit = 2;
    }).toThrow(TypeError);
    expect(found.value).toBe(value);
    expect(cache.get('k')?.value).toBe(value);
  });
});

describe('an entry that a caller keeps', () => {
  type Node = ReturnType<typeof setUp>;
  test.each<[string, (of: Node) => unknown]>([
    [
      'expires',
      ({ node }) => {
        node.now += 100;
      },
    ],
    ['is dropped', ({ cache }) => cache.drop(['k'], tenant, 2)],
    ['has its scope dropped', ({ cache }) => cache.dropScope(tenant, 2)],
    ['is forgotten', ({ cache }) => cache.flushKeys(['k'])],
    ['has its scope flushed', ({ cache }) => cache.flushScope(tenant)],
    ['is flushed', ({ cache }) => cache.flush()],
    [
      'is evicted',
      async ({ read }) => {
        for (let other = 0; other < 10; other += 1) await read(other, 1, `k${other}`);
      },
    ],
    [
      'is replaced',
      ({ begin }) => {
        const { answer, end } = begin('k', { min: { [tenant]: 2 } });
        end('new', 2);
        return answer;
      },
    ],
    [
      'is of a node without a lease',
      ({ node }) => {
        node.hasLease = false;
      },
    ],
  ])('is fresh until it %s', async (_what, end) => {
    const its = setUp();
    await its.read({ limit: 1 }, 1);
    const kept = its.cache.get('k')!;
    expect([kept.isFresh(its.node.now), kept.value]).toEqual([true, { limit: 1 }]);
    await end(its);
    expect(kept.isFresh(its.node.now)).toBe(false);
  });

  test('keeps no value alive that the cache has evicted', async () => {
    const { cache, read } = setUp();
    await read({ limit: 1 }, 1);
    const kept = cache.get('k')!;
    cache.flush();
    expect(kept.value).toBeUndefined();
  });

  test('may be asked without being counted', async () => {
    const { cache, node, read } = setUp();
    await read({ limit: 1 }, 1);
    const kept = cache.get('k')!;
    const before = cache.stats();
    for (let times = 0; times < 3; times += 1) expect(kept.isFresh(node.now)).toBe(true);
    expect(cache.stats()).toEqual(before);
  });

  test('counts as a hit where that is recorded, for the figures and against eviction', async () => {
    const { cache, node, read } = setUp({ ttlMs: () => 100_000 });
    await read('kept', 1);
    const kept = cache.get('k')!;
    for (let other = 0; other < 9; other += 1) await read(other, 1, `k${other}`);
    node.now += 2_000;
    const { hits } = cache.stats();
    expect(kept.isFresh(node.now)).toBe(true);
    kept.recordHit();
    expect(cache.stats().hits).toBe(hits + 1);
    await read('one more', 1, 'k9');
    expect([kept.isFresh(node.now), cache.get('k0')]).toEqual([true, undefined]);
  });
});

describe('single flight', () => {
  test('readers of one key share a load, readers of another do not', async () => {
    const { begin } = setUp();
    const [first, second, other] = [begin(), begin(), begin('other')];
    expect([first, second, other].map(({ started }) => started.length)).toEqual([1, 0, 1]);
    first.end('one', 1);
    await expect(second.answer).resolves.toMatchObject({ value: 'one', hit: false });
  });

  test('a failed load fails all who share it, and the next reader begins again', async () => {
    const { begin } = setUp();
    const [first, second] = [begin(), begin()];
    first.fail(new Error('no'));
    await expect(first.answer).rejects.toThrow('no');
    await expect(second.answer).rejects.toThrow('no');
    expect(begin().started).toHaveLength(1);
  });

  test('a reader does not join a load that asked for less, which is not kept over its own', async () => {
    const { cache, begin } = setUp();
    const weak = begin();
    const strong = begin('k', { min: { [tenant]: 5 } });
    const joins = begin('k', { min: { [tenant]: 4 } });
    expect([weak, strong, joins].map(({ started }) => started.length)).toEqual([1, 1, 0]);
    strong.end('five', 5);
    await expect(joins.answer).resolves.toMatchObject({ value: 'five' });
    weak.end('one', 1);
    await expect(weak.answer).resolves.toMatchObject({ value: 'one' });
    expect(cache.get('k')).toMatchObject({ value: 'five' });
  });
});

type Cache = CoherentCache;
describe.each<[string, (cache: Cache) => unknown]>([
  ['drop', (cache) => cache.drop(['k'], tenant, 2)],
  ['dropScope', (cache) => cache.dropScope(tenant, 2)],
  ['flushScope', (cache) => cache.flushScope(tenant)],
  ['flushKeys', (cache) => cache.flushKeys(['k'])],
  ['flush', (cache) => cache.flush()],
])('%s', (_name, clear) => {
  test('marks the load in flight as outdated: it answers who waited, is not cached, and no one joins it', async () => {
    const { cache, begin } = setUp();
    const waiting = begin();
    clear(cache);
    const later = begin();
    expect(later.started).toHaveLength(1);
    later.end('new', 2);
    await expect(later.answer).resolves.toMatchObject({ value: 'new' });
    // The value claims more than it includes, so that no floor replaces the mark on the load.
    waiting.end('old', 9);
    await expect(waiting.answer).resolves.toMatchObject({ value: 'old', hit: false });
    expect(cache.get('k')).toMatchObject({ value: 'new' });
    expect(cache.stats().outdatedLoads).toBe(1);
  });

  test('a load in flight that ends alone leaves nothing behind', async () => {
    const { cache, begin } = setUp();
    const waiting = begin();
    clear(cache);
    waiting.end('old', 9);
    await waiting.answer;
    expect(cache.get('k')).toBeUndefined();
  });

  test('removes the last known good value too', async () => {
    const { cache, begin, read } = setUp();
    await read('old', 1);
    clear(cache);
    expect(cache.get('k')).toBeUndefined();
    expect(cache.keys()).toEqual([]);
    const reader = begin();
    reader.fail(outage);
    await expect(reader.answer).rejects.toBe(outage);
    expect(cache.stats()).toMatchObject({ drops: 1, entries: 0, bytes: 0 });
  });
});

describe('drops', () => {
  test('take exactly their keys, and only what is older', async () => {
    const { cache, read } = setUp();
    await read('a', 3, 'a');
    await read('b', 5, 'b');
    await read('c', 3, 'c');
    expect(cache.drop(['a', 'b', 'unknown'], tenant, 4)).toBe(1);
    expect(cache.keys(tenant)).toEqual(['c', 'b']);
  });

  test('a repeated or older change leaves the newer value and its load alone', async () => {
    const { cache, begin, read } = setUp();
    cache.drop(['k', 'loading'], tenant, 5);
    cache.dropScope(platform, 5);
    await read('five', 5);
    const loading = begin('loading');
    for (const revision of [5, 4]) expect(cache.drop(['k', 'loading'], tenant, revision)).toBe(0);
    cache.dropScope(platform, 5);
    expect(cache.get('k')).toMatchObject({ value: 'five' });
    loading.end('five', 5);
    await loading.answer;
    expect(cache.get('loading')).toMatchObject({ value: 'five' });
    expect(cache.stats().outdatedLoads).toBe(0);
  });

  test('a scope drop takes what was read with the scope, and no more', async () => {
    const { cache } = setUp();
    const keep = (key: string, asOf: Record<string, number>) =>
      cache.read(key, Object.keys(asOf), async () => ({ value: key, asOf }));
    await keep('old', { [tenant]: 3, [platform]: 3 });
    await keep('new', { [tenant]: 4, [platform]: 4 });
    await keep('other', { 'tenant:b': 1, [platform]: 3 });
    cache.dropScope(tenant, 4);
    expect(cache.keys().sort()).toEqual(['new', 'other']);
    expect(cache.keys(tenant)).toEqual(['new']);
    cache.dropScope(platform, 4);
    expect(cache.keys()).toEqual(['new']);
    cache.flushScope('tenant:b');
    expect(cache.keys()).toEqual(['new']);
    cache.flushScope(tenant);
    expect(cache.keys()).toEqual([]);
  });

  test('an entry under a dropped scope stays gone after the floor is forgotten, also as last known good', async () => {
    const { cache, node, begin, read } = setUp({ ttlMs: () => 10_000 });
    await read('old', 1);
    cache.dropScope(tenant, 2);
    node.now += 1_000;
    const reader = begin();
    expect(reader.started).toEqual([{}]);
    reader.fail(outage);
    await expect(reader.answer).rejects.toBe(outage);
  });

  test('a flushed scope drops again what is kept afterwards', async () => {
    const { cache, read } = setUp();
    await read('one', 1);
    cache.flushScope(tenant);
    await read('two', 2, 'other');
    await read('two', 2);
    expect(cache.get('k')).toMatchObject({ value: 'two' });
    cache.dropScope(tenant, 3);
    expect(cache.keys()).toEqual([]);
  });
});

describe.each<[string, (cache: Cache) => unknown]>([
  ['of the key', (cache) => cache.drop(['k'], tenant, 5)],
  ['of the scope', (cache) => cache.dropScope(tenant, 5)],
])('the floor %s', (_name, raise) => {
  test('an answer from before the change is asked for again, with the revision that is needed', async () => {
    const { cache } = setUp();
    raise(cache);
    const asked: unknown[] = [];
    const found = await cache.read('k', [tenant], async (minAsOf) => {
      asked.push(minAsOf);
      return asked.length < 3
        ? { value: 'old', asOf: { [tenant]: 4 } }
        : { value: 'new', asOf: { [tenant]: 5 } };
    });
    expect(found).toMatchObject({ value: 'new', stale: false });
    expect(asked).toEqual([{ [tenant]: 5 }, { [tenant]: 5 }, { [tenant]: 5 }]);
    expect(cache.stats().rejectedBelowFloor).toBe(2);
  });

  test.each([true, false])(
    'three retries, then service_unavailable (with a lease: %s)',
    async (hasLease) => {
      const { cache, node } = setUp();
      raise(cache);
      node.hasLease = hasLease;
      let loads = 0;
      const reading = cache.read('k', [tenant], async () => {
        loads += 1;
        return { value: 'old', asOf: { [tenant]: 4 } };
      });
      await expect(reading).rejects.toMatchObject({ type: 'service_unavailable' });
      expect(loads).toBe(4);
      expect(cache.keys()).toEqual([]);
    },
  );

  test('is forgotten once nothing so old can arrive', async () => {
    const { cache, node, read } = setUp();
    raise(cache);
    expect(cache.stats().floors).toBe(1);
    node.now += 501;
    await expect(read('restored from a backup', 1)).resolves.toMatchObject({
      value: 'restored from a backup',
    });
  });
});

describe('the lease', () => {
  test('without it every reader loads alone, nothing is shared and nothing kept', async () => {
    const { cache, node, begin, read } = setUp();
    await read('kept', 1);
    const before = begin('other');
    node.hasLease = false;
    const readers = [begin(), begin(), begin('other')];
    expect(readers.map(({ started }) => started.length)).toEqual([1, 1, 1]);
    readers.forEach((reader, index) => reader.end(index, 2));
    await expect(Promise.all(readers.map(({ answer }) => answer))).resolves.toMatchObject([
      { value: 0 },
      { value: 1 },
      { value: 2 },
    ]);
    before.end('before', 1);
    await before.answer;
    node.hasLease = true;
    expect(cache.get('k')).toMatchObject({ value: 'kept' });
    expect(cache.get('other')).toBeUndefined();
    expect(cache.stats().readThrough).toBe(3);
  });

  test.each([
    [true, true, true],
    [true, false, false],
    [false, true, false],
    [false, false, false],
  ])('at the start %s and at the end %s of a load: kept %s', async (start, end, kept) => {
    const { cache, node, begin } = setUp();
    node.hasLease = start;
    const reader = begin();
    node.hasLease = end;
    reader.end('one', 1);
    await reader.answer;
    node.hasLease = true;
    expect(cache.get('k') !== undefined).toBe(kept);
  });
});

describe('fail-static', () => {
  test.each<[string, (node: { now: number; hasLease: boolean }) => void]>([
    [
      'expired',
      (node) => {
        node.now += 100_000;
      },
    ],
    [
      'unleased',
      (node) => {
        node.hasLease = false;
      },
    ],
  ])('an %s value answers for an owner that is away, marked', async (_name, age) => {
    const { cache, node, begin, read } = setUp();
    await read('known', 3);
    age(node);
    const reader = begin();
    reader.fail(outage);
    await expect(reader.answer).resolves.toEqual({
      value: 'known',
      asOf: { [tenant]: 3 },
      hit: false,
      stale: true,
    });
    const demanding = begin('k', { min: { [tenant]: 4 } });
    demanding.fail(outage);
    await expect(demanding.answer).rejects.toBe(outage);
    const refused = begin();
    refused.fail(new Error('forbidden'));
    await expect(refused.answer).rejects.toThrow('forbidden');
    expect(cache.stats().stale).toBe(1);
  });

  test('nothing known: the outage itself', async () => {
    const { begin } = setUp();
    const reader = begin();
    reader.fail(outage);
    await expect(reader.answer).rejects.toBe(outage);
  });
});

describe('size', () => {
  test('entries and bytes are bounded, and the least recently read goes first', async () => {
    const { cache } = setUp({ maxEntries: 3, maxBytes: 10_000 });
    const keep = (key: string, value = key, revision = 1) =>
      cache.read(key, [tenant], async () => ({ value, asOf: { [tenant]: revision } }), {
        min: { [tenant]: revision },
      });
    for (const key of ['a', 'b', 'c']) await keep(key);
    cache.get('a');
    await keep('d');
    expect(cache.keys().sort()).toEqual(['a', 'c', 'd']);
    const large = 'l'.repeat(4_000);
    await keep('large', large);
    expect(cache.stats().bytes).toBeLessThanOrEqual(10_000);
    const tooLarge = 'l'.repeat(5_000);
    await expect(keep('large', tooLarge, 2)).resolves.toMatchObject({ value: tooLarge });
    expect(cache.get('large')).toMatchObject({ value: large });
    cache.dropScope(tenant, 2);
    await Promise.all(['a', 'c', 'd', 'large'].map((key) => cache.get(key)));
    expect(cache.stats()).toMatchObject({ entries: 0, bytes: 0 });
  });
});

/*
 * A model for the property below: a database with three keys and two scopes, seen through one
 * node's cache while reads, writes, flushes and the lease's end come in any order.
 *
 * A write is answered once this node has dropped what it changed, or once this node's lease has run
 * out. Until then other nodes' caches may answer loads from before the write.
 */

/** What each key's value holds: the revisions of the last changes to it, by kind of change. */
interface Row {
  readonly key: string;
  readonly written: number;
  readonly platform: number;
  /** Counts changes that have no revision, such as those of a reload. */
  readonly outOfBand: number;
}
interface Version {
  readonly rows: Readonly<Record<string, Row>>;
  readonly asOf: Readonly<Record<string, number>>;
}
/** The least that a row may show. */
type Bound = Record<'written' | 'platform' | 'outOfBand', number>;
type Bounds = Map<string, Bound>;

const keys = ['a', 'b', 'c'];
const key = fc.constantFrom(...keys);
/**
 * How the loads of one read go: from how many versions ago each answers, whether it heeds
 * `minAsOf`, whether it fails.
 */
const loads = fc.array(
  fc.record({
    age: fc.nat(4),
    heeds: fc.boolean(),
    fails: fc.nat(9).map((n) => n === 0),
    // The same of what is asked for with it, where that is answered.
  }),
  { minLength: 4, maxLength: 4 },
);
const delivery = { lost: fc.boolean(), copies: fc.integer({ min: 1, max: 3 }) };
const command = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('read' as const), key, loads }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('write' as const), key, ...delivery }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('platform' as const), ...delivery }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('flush' as const, 'flushScope' as const, 'expire' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('lapse' as const, 'renew' as const) }) },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;
type ReadCommand = Extract<Command, { do: 'read' }>;

/** A committed change on its way to this node. */
interface Publication {
  /** The version that the change made. */
  readonly version: number;
  readonly lost: boolean;
  readonly copies: number;
  readonly drop: () => void;
  /** Raises the bounds of what the change concerns. */
  readonly raise: (bounds: Bounds) => void;
}

function createModel(scheduler: fc.Scheduler) {
  const { cache, node } = setUp({ maxEntries: 2, maxBytes: 1_000, floorTtlMs: 1_000_000 });
  const first: Version = {
    rows: Object.fromEntries(
      keys.map((key) => [key, { key, written: 0, platform: 0, outOfBand: 0 }]),
    ),
    asOf: { [tenant]: 0, [platform]: 0 },
  };
  const versions = [first];
  const everStored = new Set(Object.values(first.rows).map((row) => JSON.stringify(row)));
  /** The oldest version that any node may still answer with. */
  let oldestAnswer = 0;
  /** Applies each change so far, as the feed does when the lease is renewed. */
  const feed: (() => void)[] = [];
  /** Ends the waits of writes, as the end of the fence does. */
  const fences: (() => void)[] = [];
  /** What a read that begins now must show, unless it is marked stale. */
  const answered: Bounds = new Map(
    keys.map((key) => [key, { written: 0, platform: 0, outOfBand: 0 }]),
  );
  /** What even a stale value must show: what was dropped here never comes back. */
  const dropped: Bounds = structuredClone(answered);
  const reads: Promise<void>[] = [];
  /** Collected, because most are found where nobody awaits. */
  const failures: string[] = [];

  const newest = (): Version => versions.at(-1)!;

  /** Returns the new version's index. */
  function commit(next: Version): number {
    for (const row of Object.values(next.rows)) everStored.add(JSON.stringify(row));
    return versions.push(next) - 1;
  }

  function raise(bounds: Bounds, key: string, part: keyof Bound, to: number): void {
    const bound = bounds.get(key)!;
    bound[part] = Math.max(bound[part], to);
  }

  function checkRow(row: Row, bound: Bound): void {
    const text = JSON.stringify(row);
    if (!everStored.has(text)) failures.push(`${text} was never in the database`);
    const isOlder =
      row.written < bound.written ||
      row.platform < bound.platform ||
      row.outOfBand < bound.outOfBand;
    if (isOlder) failures.push(`${text} is from before ${JSON.stringify(bound)}`);
  }

  /** What must hold after every step. */
  function checkCache(): void {
    const { entries, bytes } = cache.stats();
    if (entries > 2 || bytes > 1_000)
      failures.push(`${entries} entries and ${bytes} bytes are more than 2 and 1000`);
    for (const key of keys) {
      const entry = cache.get(key);
      if (entry) checkRow(entry.value as Row, answered.get(key)!);
    }
  }

  /** Something happens at a moment of the scheduler's choice. */
  const sometime = (label: string): Promise<void> => scheduler.schedule(Promise.resolve(), label);

  function read({ key, loads }: ReadCommand): void {
    const bound = { ...answered.get(key)! };
    const boundOfStale = { ...dropped.get(key)! };
    let asked = 0;
    const load: Load<Row> = async (minAsOf) => {
      const { age, heeds, fails } = loads[asked]!;
      asked += 1;
      const oldest = oldestAnswer;
      await sometime(`asks for ${key}`);
      const aged = versions[Math.max(oldest, versions.length - 1 - age)]!;
      const isTooOld = Object.entries(minAsOf).some(
        ([scope, revision]) => aged.asOf[scope]! < revision,
      );
      const { rows, asOf } = heeds && isTooOld ? newest() : aged;
      await sometime(`answers ${key}`);
      if (fails) throw outage;
      return { value: rows[key]!, asOf: { ...asOf } };
    };
    const reading = cache.read(key, [tenant, platform], load).then(
      ({ value, stale }) => checkRow(value, stale ? boundOfStale : bound),
      (error: { code?: string }) => {
        if (error !== outage && error.code !== 'service_unavailable') throw error;
      },
    );
    reads.push(reading.then(checkCache));
  }

  /**
   * Broadcasts a change, or loses it. The write is answered some time after the first drop, or when
   * the lease has run out.
   */
  function publish({ version, lost, copies, drop, raise }: Publication): void {
    let isAnswered = false;
    const answer = (): void => {
      if (isAnswered) return;
      isAnswered = true;
      oldestAnswer = Math.max(oldestAnswer, version);
      raise(answered);
    };
    const apply = (): void => {
      drop();
      raise(dropped);
      raise(answered);
      checkCache();
      if (!isAnswered) void sometime('write is answered').then(answer);
    };
    feed.push(apply);
    fences.push(answer);
    if (lost) {
      if (!node.hasLease) answer();
      return;
    }
    for (let copy = 0; copy < copies; copy += 1) void sometime('drop arrives').then(apply);
  }

  /** Changes every row out of band, and returns once no node has anything older. */
  function changeOutOfBand(flush: () => void): void {
    const { rows, asOf } = newest();
    const outOfBand = rows.a!.outOfBand + 1;
    oldestAnswer = commit({
      rows: Object.fromEntries(keys.map((key) => [key, { ...rows[key]!, outOfBand }])),
      asOf,
    });
    flush();
    for (const key of keys) {
      raise(answered, key, 'outOfBand', outOfBand);
      raise(dropped, key, 'outOfBand', outOfBand);
    }
  }

  function run(step: Command): void {
    const { rows, asOf } = newest();
    switch (step.do) {
      case 'read':
        return read(step);
      case 'write': {
        const { key, lost, copies } = step;
        const revision = asOf[tenant]! + 1;
        const version = commit({
          rows: { ...rows, [key]: { ...rows[key]!, written: revision } },
          asOf: { ...asOf, [tenant]: revision },
        });
        return publish({
          version,
          lost,
          copies,
          drop: () => cache.drop([key], tenant, revision),
          raise: (bounds) => raise(bounds, key, 'written', revision),
        });
      }
      case 'platform': {
        const { lost, copies } = step;
        const revision = asOf[platform]! + 1;
        const changed = keys.map((key) => [key, { ...rows[key]!, platform: revision }] as const);
        const version = commit({
          rows: Object.fromEntries(changed),
          asOf: { ...asOf, [platform]: revision },
        });
        return publish({
          version,
          lost,
          copies,
          drop: () => cache.dropScope(platform, revision),
          raise: (bounds) => {
            for (const key of keys) raise(bounds, key, 'platform', revision);
          },
        });
      }
      case 'flush':
        return changeOutOfBand(() => cache.flush());
      case 'flushScope':
        return changeOutOfBand(() => cache.flushScope(tenant));
      case 'expire':
        node.now += 60;
        return;
      case 'lapse':
        node.hasLease = false;
        for (const answer of fences.splice(0)) answer();
        return;
      case 'renew':
        for (const apply of feed) apply();
        node.hasLease = true;
    }
  }

  return { run, checkCache, reads, failures };
}

async function explore(scheduler: fc.Scheduler, commands: readonly Command[]): Promise<void> {
  const { run, checkCache, reads, failures } = createModel(scheduler);
  const steps = commands.map((step) => ({
    label: step.do,
    builder: async () => {
      run(step);
      checkCache();
    },
  }));
  const { task } = scheduler.scheduleSequence(steps);
  await scheduler.waitFor(
    task.then(async ({ faulty }) => {
      expect(faulty).toBe(false);
      await Promise.all(reads);
    }),
  );
  expect(failures).toEqual([]);
}

test('over any schedule no read that begins after an answered write or an applied drop sees what was before', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(command, { minLength: 4, maxLength: 30, size: 'max' }),
      explore,
    ),
    runs(300),
  );
});

test('an owner that does not answer: without a lease a known value is the fallback soon, an unknown one is a time-out', async () => {
  const { cache, node, read } = setUp({
    isOutage: (error) => (error as { type?: string }).type === 'timeout',
  });
  await read('known', 1);
  node.hasLease = false;
  const never = (): Promise<never> => new Promise(() => {});
  await expect(cache.read('k', [tenant], never)).resolves.toMatchObject({
    value: 'known',
    stale: true,
  });
  await expect(cache.read('other', [tenant], never, { waitMs: 50 })).rejects.toMatchObject({
    type: 'timeout',
  });
}, 5000);

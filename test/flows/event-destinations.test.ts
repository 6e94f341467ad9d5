/** Events pushed to a receiver, which proves by the published programs that none is missing. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { HTTP, type CloudEvent } from 'cloudevents';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { auditSchema } from '../../services/audit/schema.ts';
import {
  currentVerifierKey,
  signHeads,
  type PushedCheckpoint,
} from '../../services/audit/stores/checkpoints.ts';
import { openDatabase } from '../../shared/database/open.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { openCheckpoint } from '../../shared/security/audit-checkpoint.ts';
import { audited } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { holdLock } from '../support/held-lock.ts';
import { problemsOfOcsf } from '../support/ocsf.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import type { Receiver } from '../support/receiver.ts';
import { startSiem, type Line, type Refuse, type Siem } from '../support/siem.ts';
import { soakTest } from '../support/soak.ts';
import {
  adminPassword,
  Client,
  addMember,
  createTenantWith,
  secretKey,
  signIn,
  startStrata,
  type Running,
  type TenantWith,
} from '../support/strata.ts';
import { verdict, verifiers } from '../support/verifiers.ts';

let database: Database;
let strata: Running;
let platform: Client;
let tenant: TenantWith<never>;
let siem: Siem;

beforeAll(async () => {
  database = await strataDatabase();
  strata = await startStrata({
    DATABASE_URL: database.url,
    RATE_LIMIT_PER_MINUTE: '0',
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await database?.drop();
});
/** Each test has a chain of its own. */
beforeEach(async () => {
  tenant = await createTenantWith(strata.url, platform, `Events ${randomUUID()}`);
  siem = await startSiem();
});
afterEach(() => siem.receiver.close());

const signingSettings = loadSettings({ SECRET_KEY: secretKey }, { roles: [] });
async function withDatabase<T>(
  work: (db: Awaited<ReturnType<typeof openDatabase>>) => Promise<T>,
): Promise<T> {
  const options = { url: database.url, poolSize: 2, timeoutMs: 10_000, ssl: false };
  const db = await openDatabase(options, auditSchema);
  try {
    return await work(db);
  } finally {
    await db.destroy();
  }
}

const at = (rest = ''): string => `/tenants/${tenant.id}${rest}`;
const operator = async (): Promise<Client> => {
  const member = { email: tenant.emails.operator!, roles: ['operator'] };
  return (await addMember(tenant.admin, tenant.id, member)).client;
};
const documentPath = () => at('/config/event-destinations');
const setUp = async (destination: object = {}, by = tenant.admin): Promise<void> => {
  const siemAt = { url: siem.receiver.url, batch: { max_seconds: 0 }, ...destination };
  const { status, text } = await by.put(documentPath(), { siem: siemAt });
  expect([status, text]).toEqual([expect.any(Number), text]);
  expect(status).toBeLessThan(300);
  if ('paused' in destination)
    await eventually(async () => expect(await state()).toMatchObject({ state: 'paused' }));
};
const state = async () => (await tenant.admin.get(at('/event-destinations'))).body.items[0];
let written = 0;
/** Some events of different actions. */
async function write(count: number, value = 'v'): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    written += 1;
    const { status } = await tenant.admin.put(at(`/config/agents/agent_${written % 3}`), {
      default_region: `${value}-${written}`,
    });
    expect(status).toBeLessThan(300);
  }
}
const headOfChain = async (): Promise<Line> => {
  const { body } = await tenant.admin.get('/audit/events?order=desc&limit=1');
  return body.items[0];
};
/** All was accepted, and it proves to be whole by programs of two languages. */
async function expectWhole(from: readonly string[] = []): Promise<void> {
  const { head, lines } = await eventually(async () => {
    expect(await database.query('SELECT FROM strata.outbox')).toEqual([]);
    const newest = await headOfChain();
    expect(siem.lines.at(-1)).toMatchObject({ seq: newest.seq, hash: newest.hash });
    expect(await state()).toMatchObject({ state: 'current', seq: newest.seq, lag_seconds: 0 });
    return { head: newest, lines: siem.lines };
  });
  const whole = `whole: ${head.seq} ${head.hash}`;
  for (const verifier of verifiers.slice(0, 2))
    expect(await verdict(verifier, lines, from)).toBe(whole);
}
/** Instead of after the wait that follows a failure. */
const tryNow = (): Promise<unknown> =>
  database.query('UPDATE audit.destinations SET due_at = clock_timestamp() WHERE lease IS NULL');
/** Cuts the chain off but for its last three events. */
async function cut(): Promise<Line> {
  const line = await eventually(async () => {
    expect(await database.query('SELECT FROM strata.outbox')).toEqual([]);
    const { body } = await tenant.admin.get('/audit/events?order=desc&limit=4');
    expect(body.items).toHaveLength(4);
    return body.items[3] as Line;
  });
  const { seq, hash } = line;
  const { status } = await platform.post('/audit/cut', { tenant_id: tenant.id, seq, hash });
  expect(status).toBeLessThan(300);
  return line;
}
const numbers = (lines: readonly Line[]) => lines.map(({ seq }) => seq);

describe('a destination', () => {
  test('gets every event from the one that made it on, signed, and its chain joins', async () => {
    const secret = `whsec_${Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')}`;
    await setUp({ secret });
    // What comes from now on finds the destination there.
    await eventually(async () => expect(siem.lines).toHaveLength(1));
    await write(5);
    await eventually(async () => expect(siem.lines.length).toBeGreaterThanOrEqual(6));
    const [first] = siem.lines;
    expect(first).toMatchObject({ action: 'config.event_destinations.created' });
    await expectWhole([String(first!.seq - 1), first!.previous!]);
    const [{ text, headers, body }] = siem.receiver.received as [Receiver['received'][0]];
    expect(new Webhook(secret).verify(text, headers as Record<string, string>)).toMatchObject({
      type: 'audit.events',
      id: headers['webhook-id'],
      data: { chain: tenant.id, destination: 'siem', first_seq: first!.seq },
    });
    expect(body.data.head.seq).toBeGreaterThanOrEqual(body.data.last_seq);
    expect(text).not.toContain(secret);
  });

  test('begins at a number, has been sent the past by that, and waits while it is paused', async () => {
    await setUp({ from_seq: 1, paused: true });
    expect(await state()).toMatchObject({ seq: 0 });
    await write(3);
    await setUp();
    await expectWhole();
    expect(numbers(siem.lines)).toEqual(siem.lines.map((_line, index) => index + 1));
  });

  test('of some types gets no others, and lines with a hash for these', async () => {
    await setUp({ from_seq: 1, types: ['config.budgets.*', 'tenant.created'] });
    await write(4);
    const budget = { amount: '1.00', currency: 'EUR', per: 'day', timezone: 'UTC' };
    await tenant.admin.put(at('/config/budgets'), { daily: budget });
    await eventually(async () =>
      expect(siem.lines.map(({ action }) => action)).toContain('config.budgets.created'),
    );
    expect(siem.lines.map(({ action, skipped }) => action ?? skipped)).toEqual(
      expect.arrayContaining(['config.budgets.created', 'filtered']),
    );
    for (const { action = 'config.budgets.x' } of siem.batches().flatMap(({ events }) => events))
      expect(action).toMatch(/^config\.budgets\.|^tenant\.created/);
    const last = siem.lines.at(-1)!;
    for (const verifier of verifiers)
      expect(await verdict(verifier, siem.lines)).toBe(`whole: ${last.seq} ${last.hash}`);
    // What is not wanted is no reason to send anything.
    const requests = siem.receiver.received.length;
    await write(2);
    await eventually(async () => expect(await state()).toMatchObject({ state: 'current' }));
    expect(siem.receiver.received).toHaveLength(requests);
  });

  // Each with another of the programs: they are given the same lines, whatever carried them.
  test.each(['ndjson', 'cloudevents', 'ocsf'].map((format, n) => [format, verifiers[n]!] as const))(
    'has its lines as %s, and a test likewise',
    async (format, verifier) => {
      await setUp({ format, from_seq: 1, types: ['tenant.*', 'config.agent.*'] });
      await write(2);
      const lines = await eventually(async () => {
        const found = siem.receiver.received.flatMap(({ text, headers }) => {
          const type = headers['content-type'];
          if (format === 'ndjson') {
            expect(type).toBe('application/x-ndjson');
            return text
              .trimEnd()
              .split('\n')
              .map((line) => JSON.parse(line) as Line);
          }
          if (format === 'ocsf') {
            expect(type).toBe('application/json');
            const events = JSON.parse(text) as { unmapped: Line }[];
            expect(events.map(problemsOfOcsf)).toEqual(events.map(() => null));
            return events.map(({ unmapped }) => unmapped);
          }
          expect(type).toBe('application/cloudevents-batch+json; charset=utf-8');
          const events = HTTP.toEvent<Line>({ headers, body: text }) as CloudEvent<Line>[];
          return events.map((event) => {
            expect(event.validate()).toBe(true);
            expect(event).toMatchObject({
              source: `/tenants/${tenant.id}/audit`,
              type: `strata.${event.data!.action ?? 'audit.skipped'}`,
            });
            return event.data!;
          });
        });
        expect(found.filter(({ action }) => action?.startsWith('config.agent.'))).toHaveLength(2);
        return found;
      });
      expect(lines.map(({ skipped }) => skipped)).toContain('filtered');
      const last = lines.at(-1)!;
      expect(await verdict(verifier, lines)).toBe(`whole: ${last.seq} ${last.hash}`);
      const tried = await tenant.admin.post(at('/event-destinations/siem/test'));
      expect(tried.body).toMatchObject({ delivered: true, status: 204 });
      expect(siem.receiver.received.at(-1)!.text).toContain('audit.test');
    },
  );

  test('says which event was altered, left out or swapped', async () => {
    await setUp({ from_seq: 1 });
    await write(3);
    await expectWhole();
    const changed = siem.lines.map((line, index) =>
      index === 3 ? { ...line, target: 'x' } : line,
    );
    const without = siem.lines.toSpliced(3, 1);
    const swapped = siem.lines.toSpliced(3, 2, siem.lines[4]!, siem.lines[3]!);
    for (const verifier of verifiers) {
      expect(await verdict(verifier, changed)).toBe('altered: 4');
      expect(await verdict(verifier, without)).toBe('missing: 4');
      expect(await verdict(verifier, swapped)).toBe('missing: 4');
    }
  });
});

describe('nothing is missing', () => {
  soakTest('where the document is written twice before the audit has observed it', async () => {
    const before = await eventually(async () => {
      expect(await database.query('SELECT FROM strata.outbox')).toEqual([]);
      return headOfChain();
    });
    const lock = 'SELECT FROM audit.chains WHERE chain = $1 FOR UPDATE';
    const chain = await holdLock(database, lock, [tenant.id]);
    await write(1);
    await chain.untilWaiting(1);
    // These are recorded together.
    await setUp();
    await write(2);
    await setUp({ format: 'standard' });
    await chain.release();
    await eventually(async () => expect(siem.lines).not.toEqual([]));
    const [first] = siem.lines;
    expect([first!.seq, first!.action]).toEqual([
      before.seq + 2,
      'config.event_destinations.created',
    ]);
    await expectWhole([String(first!.seq - 1), first!.previous!]);
  });

  test('after an answer of 401, and a connection that ends', async () => {
    const answers: ReturnType<Refuse>[] = [401, (response) => response.destroy()];
    siem.refuse = () => (answers.length > 0 ? answers.shift() : undefined);
    await setUp({ from_seq: 1 });
    await eventually(async () => expect(await state()).toMatchObject({ state: 'failing' }));
    await write(2);
    await expectWhole();
    // The batch that failed is the same each time.
    const ids = siem.receiver.received.slice(0, 3).map(({ body }) => body.id);
    expect(new Set(ids)).toEqual(new Set([expect.stringMatching(/^evt_/)]));
    expect(ids).toEqual(Array(3).fill(ids[0]));
  });

  test('of one that answers 500, one that is slow, and one that is killed and comes back', async () => {
    siem.refuse = () => 500;
    await setUp({ from_seq: 1 });
    await eventually(async () =>
      expect(await state()).toMatchObject({ state: 'failing', status: 500, seq: 0 }),
    );
    const held = Promise.withResolvers<ServerResponse>();
    siem.refuse = () => held.resolve;
    await tryNow();
    await held.promise;
    // Nothing else is sent to it while it has not answered, and nothing is taken for accepted.
    const requests = siem.receiver.received.length;
    await write(3);
    expect(await state()).toMatchObject({ seq: 0 });
    expect(siem.receiver.received).toHaveLength(requests);
    await siem.receiver.close();
    await eventually(async () => expect((await state()).failures).toBeGreaterThan(1));
    await write(2);
    siem = await startSiem(Number(new URL(siem.receiver.url).port));
    await tryNow();
    await expectWhole();
  });

  /**
   * Keeps back the batches that come from now on. The receiver stores one by `store` once its test
   * wants it, and answers it by `answer`.
   */
  function keepBack() {
    const kept: { readonly store: () => void; readonly answer: () => Promise<unknown> }[] = [];
    siem.refuse = (batch) => (response) => {
      kept.push({
        store() {
          siem.lines = [...siem.lines.filter(({ seq }) => seq < batch.first_seq), ...batch.events];
        },
        answer: () => Promise.all([once(response, 'close'), response.writeHead(204).end()]),
      });
    };
    return (place: number) =>
      eventually(async () => {
        expect(kept.length).toBeGreaterThan(place);
        return kept[place]!;
      });
  }

  soakTest(
    'where a node stood still with a batch, which comes after those of another',
    async () => {
      await setUp({ from_seq: 1 });
      await expectWhole();
      const kept = keepBack();
      await write(1);
      const late = await kept(0);
      siem.refuse = () => undefined;
      await write(3);
      // As when the claim of the node has ended.
      await database.query('UPDATE audit.destinations SET due_at = clock_timestamp()');
      await expectWhole();
      late.store();
      await late.answer();
      await expectWhole();
    },
  );

  soakTest(
    'where the document was written while a batch was on its way, which comes last',
    async () => {
      await setUp({ from_seq: 1 });
      await expectWhole();
      const kept = keepBack();
      await write(1);
      const late = await kept(0);
      siem.refuse = () => undefined;
      await setUp({ from_seq: 1, batch: { max_seconds: 0, max_events: 50 } });
      await write(2);
      await expectWhole();
      late.store();
      await late.answer();
      await expectWhole();
    },
  );

  soakTest('where a batch comes between another and the answer to that', async () => {
    await setUp({ from_seq: 1 });
    await expectWhole();
    const kept = keepBack();
    await write(1);
    const late = await kept(0);
    await write(2);
    const { status } = await tenant.admin.post(at('/event-destinations/siem/replay'), {
      from_seq: 1,
    });
    expect(status).toBe(200);
    const next = await kept(1);
    siem.refuse = () => undefined;
    next.store();
    late.store();
    await late.answer();
    await state();
    await next.answer();
    await expectWhole();
  });

  test('where batches are too large, and where one event is', async () => {
    siem.refuse = ({ events }, text) =>
      events.filter(({ skipped }) => !skipped).length > 3 || text.includes('enormous')
        ? 413
        : undefined;
    await setUp({ from_seq: 1, paused: true });
    await write(5);
    await write(1, 'enormous');
    await write(2);
    await setUp();
    await expectWhole();
    const skipped = siem.lines.filter((line) => line.skipped !== undefined);
    expect(skipped).toEqual([
      {
        skipped: 'too_large',
        from: skipped[0]!.seq,
        seq: skipped[0]!.seq,
        hash: expect.any(String),
        previous: expect.any(String),
      },
    ]);
    const sizes = siem.batches().map(({ events }) => events.length);
    expect(sizes[1]).toBe(Math.floor(sizes[0]! / 2));
  });

  test('after 410, which pauses it until the document is written', async () => {
    siem.refuse = () => 410;
    await setUp({ from_seq: 1 });
    const notified = await audited(tenant.admin, 'audit.destination_gone', () => true);
    expect(notified).toMatchObject({ target: 'siem', payload: { status: 410, seq: 0 } });
    expect(await state()).toMatchObject({ state: 'gone', seq: 0, status: 410 });
    await write(2);
    expect(siem.receiver.received).toHaveLength(1);
    siem.refuse = () => undefined;
    await setUp();
    await expectWhole();
  });

  test('for a receiver that has lost its state, and asks from the beginning', async () => {
    await setUp({ from_seq: 1 });
    await write(3);
    await expectWhole();
    siem.lines = [];
    const [first] = siem.receiver.received;
    const replay = at('/event-destinations/siem/replay');
    const { seq } = await state();
    expect((await tenant.admin.post(replay, { from_seq: seq + 2 })).status).toBe(409);
    expect((await (await operator()).post(replay, { from_seq: 1 })).status).toBe(403);
    const { status, body } = await tenant.admin.post(replay, { from_seq: 1 });
    expect([status, body.seq]).toEqual([200, 0]);
    await expectWhole();
    const ids = siem.receiver.received.map(({ body }) => body.id);
    expect(ids.filter((id) => id === first!.body.id)).toHaveLength(1);
    expect(siem.lines.map(({ action }) => action)).toContain('audit.destination_replayed');
  });

  soakTest('where the audit was cut below its cursor, which a line tells', async () => {
    await setUp({ from_seq: 1, paused: true });
    await write(3);
    const { seq, hash } = await cut();
    await setUp();
    await expectWhole();
    expect(siem.lines[0]).toEqual({ skipped: 'cut', from: 1, seq, hash, previous: null });
  });

  soakTest('where it was cut behind a batch that had failed', async () => {
    siem.refuse = () => 500;
    await setUp({ from_seq: 1 });
    await eventually(async () => expect(await state()).toMatchObject({ state: 'failing', seq: 0 }));
    await write(8);
    const { seq, hash } = await cut();
    siem.refuse = () => undefined;
    await tryNow();
    await expectWhole();
    expect(siem.lines[0]).toEqual({ skipped: 'cut', from: 1, seq, hash, previous: null });
  });
});

describe('checkpoints', () => {
  /** As a node does each hour. */
  const sign = () => withDatabase((db) => signHeads(db.manager, signingSettings, 100));
  const accepted = () =>
    siem.receiver.received
      .filter(({ body }) => body.type === 'audit.checkpoints')
      .flatMap(({ body }) => body.data.checkpoints as PushedCheckpoint[]);
  const ownVerifier = currentVerifierKey(signingSettings);

  test('are pushed where they are asked for, of the own chain, again after a failure', async () => {
    let failures = 1;
    await setUp({ checkpoints: true });
    const head = await eventually(async () => {
      const newest = await headOfChain();
      expect(siem.lines.at(-1)).toMatchObject({ seq: newest.seq });
      return newest;
    });
    siem.refuse = (_batch, text) =>
      text.includes('audit.checkpoints') && (failures -= 1) === 0 ? 503 : undefined;
    await createTenantWith(strata.url, platform, `Other ${randomUUID()}`);
    await sign();
    await eventually(async () => expect(accepted()).toHaveLength(2));
    const [first, again] = siem.receiver.received.filter(
      ({ body }) => body.type === 'audit.checkpoints',
    );
    expect(again!.body.id).toBe(first!.body.id);
    const [pushed] = accepted();
    expect(openCheckpoint(pushed!.note, [ownVerifier])).toEqual({
      chain: tenant.id,
      seq: head.seq,
      hash: head.hash,
      made_at: pushed!.made_at,
    });
    // What was signed is not sent again, nor where nobody asks for it.
    await setUp({ checkpoints: false });
    await write(1);
    await database.query(`UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'`);
    await sign();
    await write(1);
    await expectWhole([String(siem.lines[0]!.seq - 1), siem.lines[0]!.previous!]);
    expect(accepted()).toHaveLength(2);
  });

  test("of every chain reach the platform's destination", async () => {
    const siemAt = { url: siem.receiver.url, checkpoints: true };
    expect(
      (await platform.put('/config/event-destinations', { siem: siemAt })).status,
    ).toBeLessThan(300);
    await eventually(async () =>
      expect((await platform.get('/event-destinations')).body.items).toHaveLength(1),
    );
    await write(1);
    await eventually(async () =>
      expect(await database.query('SELECT FROM strata.outbox')).toEqual([]),
    );
    await database.query(`UPDATE audit.checkpoints SET made_at = made_at - interval '1 hour'`);
    await sign();
    await eventually(async () =>
      expect(accepted().map(({ chain }) => chain)).toEqual(
        expect.arrayContaining(['platform', tenant.id]),
      ),
    );
    for (const { note, ...said } of accepted())
      expect(openCheckpoint(note, [ownVerifier])).toEqual(said);
    await platform.delete('/config/event-destinations');
  });
});

describe('the document', () => {
  test('shows no secret, has an ETag, tells a trial, a history and a rollback', async () => {
    const secret = 'canary-of-a-destination';
    await setUp({ secret, paused: true });
    const read = await tenant.admin.get(documentPath());
    expect(read.body.siem).toMatchObject({ secret: '********', paused: true });
    expect(read.text).not.toContain(secret);
    const etag = { 'if-match': '"stale"' };
    expect((await tenant.admin.put(documentPath(), read.body, etag)).status).toBe(412);
    // The mask keeps the secret for this address, and for no other.
    expect((await tenant.admin.put(documentPath(), read.body)).status).toBe(200);
    const elsewhere = { siem: { ...read.body.siem, url: 'http://127.0.0.1:1/' } };
    expect((await tenant.admin.put(documentPath(), elsewhere)).status).toBe(422);
    const trial = await tenant.admin.patch(`${documentPath()}?dry_run=true`, {
      siem: { paused: null },
    });
    expect([trial.status, trial.body.changes]).toEqual([200, [expect.anything()]]);
    const removed = await tenant.admin.delete(documentPath());
    expect(removed.status).toBe(204);
    await eventually(async () =>
      expect((await tenant.admin.get(at('/event-destinations'))).body.items).toEqual([]),
    );
    const history = await tenant.admin.get(
      at('/config/history?config_type=event_destinations_config'),
    );
    expect(history.text).not.toContain(secret);
    const [{ revision }] = history.body.items;
    const back = await tenant.admin.post(at('/config/rollback'), { undo: revision });
    expect([back.status, back.text]).toEqual([201, back.text]);
    await eventually(async () => expect(await state()).toMatchObject({ state: 'paused' }));
  });

  test('is refused with what cannot be sent to', async () => {
    const put = (destinations: object) => tenant.admin.put(documentPath(), destinations);
    expect((await put({ siem: { url: 'http://169.254.169.254/' } })).status).toBe(422);
    expect((await put({ siem: { url: siem.receiver.url, secret: 'whsec_?' } })).status).toBe(422);
    const many = Object.fromEntries(
      [1, 2, 3, 4, 5, 6].map((n) => [`s${n}`, { url: siem.receiver.url }]),
    );
    expect((await put(many)).status).toBe(422);
    expect((await (await operator()).put(documentPath(), {})).status).toBe(403);
  });

  test('is tried by a test, which moves no cursor and says what was answered', async () => {
    await setUp({ paused: true });
    const tried = await tenant.admin.post(at('/event-destinations/siem/test'));
    expect([tried.status, tried.body]).toEqual([
      200,
      expect.objectContaining({ delivered: true, status: 204 }),
    ]);
    expect(siem.receiver.received.map(({ body }) => body.type)).toEqual(['audit.test']);
    expect((await tenant.admin.post(at('/event-destinations/other/test'))).status).toBe(404);
  });
});

describe('of the platform', () => {
  const document = '/config/event-destinations';
  const platformState = async () => (await platform.get('/event-destinations')).body.items[0];
  const headOfPlatform = async () =>
    (
      await database.query<Line>("SELECT seq::int, hash FROM audit.chains WHERE chain = 'platform'")
    )[0]!;
  const writeOfPlatform = async (value: number): Promise<void> => {
    const { status } = await platform.put('/config/global/pushed', { config_value: value });
    expect(status).toBeLessThan(300);
  };
  const expectPlatformWhole = async (): Promise<void> => {
    const head = await eventually(async () => {
      expect(await database.query('SELECT FROM strata.outbox')).toEqual([]);
      const newest = await headOfPlatform();
      expect(siem.lines.at(-1)).toMatchObject({ seq: newest.seq, hash: newest.hash });
      return newest;
    });
    for (const verifier of verifiers.slice(0, 2))
      expect(await verdict(verifier, siem.lines)).toBe(`whole: ${head.seq} ${head.hash}`);
  };
  const setUpPlatform = async (destination: object = {}): Promise<void> => {
    const siemAt = { url: siem.receiver.url, from_seq: 1, batch: { max_seconds: 0 } };
    const { status, text } = await platform.put(document, { siem: { ...siemAt, ...destination } });
    expect([status < 300, text]).toEqual([true, text]);
  };
  afterEach(async () => {
    await platform.delete(document);
    await eventually(async () => expect(await platformState()).toBeUndefined());
  });

  test("gets the platform's chain from its beginning, and no tenant's", async () => {
    await setUpPlatform({ secret: 'canary-of-the-platform' });
    await writeOfPlatform(1);
    await write(1);
    await expectPlatformWhole();
    expect(siem.lines.map(({ action }) => action)).toContain('config.global.created');
    const [first] = siem.batches();
    expect(first).toMatchObject({ chain: 'platform', destination: 'siem', first_seq: 1 });
    expect(siem.lines.map(({ tenant_id: of }) => of)).toEqual(siem.lines.map(() => null));
    const read = await platform.get(document);
    expect([read.status, read.body]).toMatchObject([200, { siem: { secret: '********' } }]);
    const shown = [read, await platform.get('/config/history')].map(({ text }) => text).join('');
    expect(shown).not.toContain('canary-of-the-platform');
  });

  soakTest('is sent everything again, waits where its receiver is gone, and is tried', async () => {
    await setUpPlatform();
    await expectPlatformWhole();
    siem.lines = [];
    const { status, body } = await platform.post('/event-destinations/siem/replay', {
      from_seq: 1,
    });
    expect([status, body.seq]).toEqual([200, 0]);
    await expectPlatformWhole();
    siem.refuse = () => 410;
    await writeOfPlatform(2);
    await eventually(async () => expect(await platformState()).toMatchObject({ state: 'gone' }));
    const notified = await audited(platform, 'audit.destination_gone', (each) => !each.tenant_id);
    expect(notified).toMatchObject({ tenant_id: null, target: 'siem' });
    siem.refuse = () => undefined;
    // The same document again would be no write.
    await setUpPlatform({ batch: { max_seconds: 0, max_events: 50 } });
    await expectPlatformWhole();
    const tried = await platform.post('/event-destinations/siem/test');
    expect([tried.status, tried.body.delivered]).toEqual([200, true]);
    expect((await platform.post('/event-destinations/other/test')).status).toBe(404);
  });

  test('names itself by its format, without a tenant', async () => {
    await setUpPlatform({ format: 'cloudevents' });
    await siem.receiver.wait(({ text }) => text.includes('event_destinations'), 1);
    const [event] = JSON.parse(siem.receiver.received[0]!.text);
    expect(event).toMatchObject({ source: '/audit', data: { tenant_id: null } });
    await setUpPlatform({ format: 'ocsf' });
    await platform.post('/event-destinations/siem/replay', { from_seq: 1 });
    const inOcsf = await siem.receiver.wait(({ text }) => text.includes('"class_uid":6003'));
    const [activity] = JSON.parse(inOcsf.at(-1)!.text);
    expect(problemsOfOcsf(activity)).toBeNull();
    expect(activity.metadata).not.toHaveProperty('tenant_uid');
  });

  test("is its administrators' alone, and comes back by a rollback", async () => {
    await setUpPlatform({ paused: true });
    for (const path of [document, '/event-destinations'])
      expect((await tenant.admin.get(path)).status).toBe(403);
    expect((await tenant.admin.put(document, {})).status).toBe(403);
    const refused = await platform.put(document, { siem: { url: 'http://169.254.169.254/' } });
    expect(refused.status).toBe(422);
    expect((await platform.delete(document)).status).toBe(204);
    const history = await platform.get('/config/history?config_type=event_destinations_config');
    const undo = { undo: history.body.items[0].revision };
    const { body: key } = await platform.post('/auth/api-key', {
      name: 'k',
      scopes: ['platform:write'],
    });
    const byKey = await new Client(strata.url, key.api_key).post('/config/rollback', undo);
    expect([byKey.status, byKey.body.detail.code]).toEqual([403, 'insufficient_scope']);
    const back = await platform.post('/config/rollback', undo);
    expect([back.status, back.text]).toEqual([201, back.text]);
    await eventually(async () => expect(await platformState()).toMatchObject({ state: 'paused' }));
  });
});

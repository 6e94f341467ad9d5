/**
 * Scheduled change sets while what applies them is away or its clock jumps: each is applied once, at
 * its time by the database's clock, or is suspended where that has passed for too long.
 */
import { afterAll, beforeAll, beforeEach, expect, jest, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { graceMs } from '../../shared/change-sets/schedule.ts';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { startPostgres } from '../support/postgres.ts';
import { addMember, type Answer, type Client } from '../support/strata.ts';

jest.setTimeout(300_000);
let cluster: Cluster;
let approver: Client;
beforeAll(async () => {
  cluster = await startCluster({
    gateways: 1,
    postgres: () => startPostgres({ ownClock: true }),
    environment: { REQUEST_TIMEOUT_MS: '2500' },
  });
  const { admin, id } = cluster.tenant;
  const dora = { email: 'dora@schedule.example', roles: ['tenant_admin'] };
  ({ client: approver } = await addMember(admin, id, dora));
  good(await admin.put(at('/config/change-policy'), {}));
  await grown(cluster.database, id);
});
afterAll(() => cluster?.stop());
beforeEach(() => setClock(0));

/** How many seconds the database's clock is ahead of ours. */
let ahead = 0;
async function setClock(seconds: number): Promise<void> {
  await cluster.postgres.setClock(seconds);
  ahead = seconds;
}

const at = (rest: string): string => `/tenants/${cluster.tenant.id}${rest}`;
const sets = (rest = ''): string => at(`/config/changesets${rest}`);
function good(answer: Answer): Answer {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
}
/** Repeats what no node answers, until one does. */
const insist = (work: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => good(await work()), 120_000);

interface Scheduled {
  readonly id: string;
  /** By our clock. */
  readonly dueAt: number;
}
let count = 0;

/**
 * Opens a change set of one project that is due so long from now by the database's clock, and has
 * another approve it.
 */
async function scheduled(inMs: number): Promise<Scheduled> {
  const { admin } = cluster.tenant;
  const dueAt = Date.now() + inMs;
  const project = at(`/projects/scheduled-${(count += 1)}/config`);
  const draft = {
    title: 'A change',
    reason: 'It is time',
    items: [{ action: 'put', path: project, body: { labels: { name: 'Shop' } } }],
    apply: { at: new Date(dueAt + ahead * 1000).toISOString() },
  };
  const { id } = good(await admin.post(sets(), draft)).body;
  const { digest } = good(await admin.post(sets(`/${id}/submit`))).body;
  const approved = good(await approver.post(sets(`/${id}/approve`), { digest }));
  expect(approved.body.state).toBe('scheduled');
  return { id, dueAt };
}

/** Its state and note, and how many entries of the history are its own. */
async function whatBecameOf({ id }: Scheduled): Promise<unknown[]> {
  const { state, note } = (await insist(() => cluster.tenant.admin.get(sets(`/${id}`)))).body;
  const [written] = await cluster.database.query<{ entries: number }>(
    'SELECT count(*)::int AS entries FROM tenant_config.configuration_history WHERE changeset_id = $1',
    [id],
  );
  return [state, note, written!.entries];
}
const applied = ['applied', null, 1];
const waiting = ['scheduled', null, 0];
const tooLate = ['suspended', 'Its time had passed before it could be applied.', 0];
const becomes = (set: Scheduled, what: unknown[]): Promise<void> =>
  eventually(async () => expect(await whatBecameOf(set)).toEqual(what), 60_000);

test('whoever keeps the schedule is killed before its time and comes back after it', async () => {
  const set = await scheduled(4000);
  const keepers = cluster.services.slice(0, 2);
  await Promise.all(keepers.map(killed));
  await delay(set.dueAt - Date.now() + 500);
  await Promise.all(keepers.map(cluster.revive));
  await becomes(set, applied);
});

test('the database is away at its time', async () => {
  const [first, second] = [await scheduled(4000), await scheduled(5000)];
  await cluster.postgres.restart('SIGKILL', () => delay(second.dueAt - Date.now() + 500));
  await becomes(first, applied);
  await becomes(second, applied);
});

test("the database's clock goes to its time, beyond its grace, and back", async () => {
  const soon = await scheduled(600_000);
  const missed = await scheduled(1_200_000);
  /** Whoever applies has looked at the others as well when this one is applied. */
  const allLooked = async () => becomes(await scheduled(1000), applied);
  await setClock(500);
  await allLooked();
  expect(await whatBecameOf(soon)).toEqual(waiting);
  await setClock(700);
  await becomes(soon, applied);
  expect(await whatBecameOf(missed)).toEqual(waiting);
  await setClock(1200 + graceMs / 1000 + 60);
  await becomes(missed, tooLate);
  await setClock(0);
  await allLooked();
  // Their time comes a second time.
  await setClock(1210);
  await allLooked();
  expect([await whatBecameOf(soon), await whatBecameOf(missed)]).toEqual([applied, tooLate]);
});

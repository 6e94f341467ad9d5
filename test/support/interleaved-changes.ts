/**
 * Change sets under people who do everything at once, in random order: propose, edit, approve,
 * reject, cancel, apply, rebase, write, and lose their rights. Then what is stored is held against
 * the audit: what was applied is what was approved, by people who could approve it then.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { digestOf } from '../../shared/change-sets/rules.ts';
import type { Content } from '../../shared/change-sets/schema.ts';
import { eventually, killed, type Cluster } from './cluster.ts';
import { grown } from './grown.ts';
import type { Database } from './postgres.ts';
import { addMember, type Client } from './strata.ts';
import { randomFrom } from './values-of-schema.ts';

export interface Interleaved {
  readonly database: Database;
  readonly tenantId: string;
  /** Ada and Dora administer the tenant, Bob is an operator. There is a policy, for one approval. */
  readonly ada: Client;
  readonly dora: Client;
  readonly bob: Client;
  readonly doraId: string;
  readonly rounds: number;
  readonly seed: number;
}

interface Seen {
  id: string;
  digest: string;
  state: string;
}
const isOpen = (state: string): boolean =>
  !['applied', 'rejected', 'cancelled', 'failed'].includes(state);

interface Event {
  readonly action: string;
  readonly actor: string;
  readonly target: string;
  readonly payload: { readonly digest: string; readonly approved_by: readonly string[] };
}

export interface Outcome {
  readonly applied: number;
  readonly refused: number;
  readonly stale: number;
}

export async function interleaveChanges(options: Interleaved): Promise<Outcome> {
  const { database, tenantId, ada, dora, bob, doraId, rounds, seed } = options;
  const random = randomFrom(seed);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  const base = `/tenants/${tenantId}/config/changesets`;
  const paths = ['a', 'b', 'c'].map((name) => `/tenants/${tenantId}/projects/mixed-${name}/config`);
  const known: Seen[] = [];
  let refused = 0;
  let value = 0;

  const items = () => {
    const body = { labels: { value: String((value += 1)) } };
    const count = random() < 0.3 ? 2 : 1;
    const first = Math.floor(random() * paths.length);
    return Array.from({ length: count }, (_none, index) => ({
      action: 'put',
      path: paths[(first + index) % paths.length]!,
      body,
    }));
  };
  const learn = (body: Seen): void => {
    const seen = known.find(({ id }) => id === body.id);
    if (!seen) known.push(body);
    else Object.assign(seen, { digest: body.digest, state: body.state });
  };
  async function send(by: Client, method: string, path: string, body?: unknown): Promise<void> {
    const answer = await by.send(method, path, body === undefined ? {} : { body });
    if (answer.status >= 500) throw new Error(`${method} ${path}: ${answer.text}`);
    if (answer.status >= 400) refused += 1;
    else learn(answer.body as Seen);
  }
  const step = (): Promise<void> => {
    const by = pick([ada, dora, bob]);
    const set = pick(known.filter(({ state }) => isOpen(state)).slice(-3));
    const at = (rest: string): string => `${base}/${set?.id}${rest}`;
    const apply = random() < 0.6 ? 'on_approval' : 'manual';
    const made = { title: 't', reason: 'r', items: items(), apply };
    if (set === undefined || random() < 0.15) return send(pick([ada, dora]), 'POST', base, made);
    // Mostly what brings it further, and else anything.
    if (random() < 0.5) {
      if (set.state === 'draft') return send(pick([ada, dora]), 'POST', at('/submit'));
      if (set.state === 'pending')
        return send(pick([bob, dora]), 'POST', at('/approve'), { digest: set.digest });
      return send(ada, 'POST', at(set.state === 'stale' ? '/rebase' : '/apply'));
    }
    const steps = [
      () => send(by, 'PATCH', at(''), { items: items() }),
      () => send(by, 'PATCH', at(''), { title: String(value) }),
      () => send(by, 'POST', at('/submit')),
      () => send(by, 'POST', at('/submit')),
      () => send(by, 'POST', at('/approve'), { digest: set.digest }),
      () => send(by, 'POST', at('/approve'), { digest: set.digest }),
      () => send(by, 'POST', at('/approve'), { digest: set.digest }),
      () => send(by, 'POST', at('/apply')),
      () => send(by, 'POST', at('/rebase')),
      () => (random() < 0.2 ? send(by, 'POST', at('/reject'), {}) : send(by, 'POST', at('/apply'))),
      () => send(by, 'PUT', pick(paths), made.items[0]!.body),
    ];
    return pick(steps)();
  };

  const written = await historyOf(database, tenantId);
  for (let round = 0; round < rounds; round += 1) {
    // Whoever lost the right in this round neither approves nor has what they approved applied.
    const isRevoked = round % 5 === 4;
    const setRoles = async (role: string): Promise<void> => {
      const path = `/tenants/${tenantId}/users/${doraId}`;
      const { status, text } = await ada.send('PATCH', path, { body: { roles: [role] } });
      assert.equal(status, 200, text);
    };
    if (isRevoked) await setRoles('viewer');
    const before = await appliedOf(database, tenantId);
    await Promise.all([step(), step(), step()]);
    if (!isRevoked) continue;
    const after = await appliedOf(database, tenantId);
    for (const { id, content } of after.filter((row) => !before.some((old) => old.id === row.id)))
      assert.ok(!content.approved_by.some((each) => each.id === doraId), `${id} of the revoked`);
    await setRoles('tenant_admin');
    await grown(database, tenantId);
  }

  const all = await appliedOf(database, tenantId);
  await eventually(async () => {
    const events = await eventsOf(database, tenantId);
    assert.equal(
      events.filter(({ action }) => action === 'changeset.applied').length,
      all.length,
      'an event for each that was applied',
    );
    for (const row of all) requireApproved(row, events);
  });
  await requireWrites(database, tenantId, written, all);
  const stale = await database.query(
    `SELECT FROM tenant_config.change_sets WHERE tenant_id = $1 AND state = 'stale'`,
    [tenantId],
  );
  return { applied: all.length, refused, stale: stale.length };
}

interface Applied {
  readonly id: string;
  readonly digest: string;
  readonly content: Content;
}

const appliedOf = (database: Database, tenantId: string): Promise<Applied[]> =>
  database.query(
    `SELECT id, digest, content FROM tenant_config.change_sets WHERE tenant_id = $1 AND state = 'applied' AND content->'break_glass' IS NULL`,
    [tenantId],
  ) as Promise<Applied[]>;

const eventsOf = (database: Database, tenantId: string): Promise<Event[]> =>
  database.query(
    `SELECT action, actor_id AS actor, target, payload FROM audit.events
     WHERE chain = $1 AND action LIKE 'changeset.%' ORDER BY seq`,
    [tenantId],
  ) as Promise<Event[]>;

/** Of the last digest that anybody made of it, by others than all who had a hand in it. */
function requireApproved({ id, digest, content }: Applied, events: readonly Event[]): void {
  const own = events.filter(({ target }) => target === id);
  const makes = ['created', 'edited', 'rebased'].map((step) => `changeset.${step}`);
  const last = own.findLastIndex(({ action }) => makes.includes(action));
  const authors = new Set(
    own.filter(({ action }) => makes.includes(action)).map(({ actor }) => actor),
  );
  const approvals = own.slice(last).filter(({ action }) => action === 'changeset.approved');
  assert.equal(own[last]!.payload.digest, digest, `${id} is the digest of its last edit`);
  assert.equal(digestOf(own[0] ? tenantOf(content) : null, content), digest, `${id} is its digest`);
  assert.ok(approvals.length >= content.required, `${id} was approved`);
  for (const { actor, payload } of approvals) {
    assert.equal(payload.digest, digest, `${id} was approved by its digest`);
    assert.ok(!authors.has(actor), `${id} was approved by another than its authors`);
  }
  assert.equal(own.filter(({ action }) => action === 'changeset.applied').length, 1);
}
const tenantOf = ({ items }: Content): string => items[0]!.path.split('/')[2]!;

interface HistoryRow {
  readonly revision: number;
  readonly changeset_id: string | null;
  readonly resource_id: string;
  readonly after: unknown;
}
const historyOf = (database: Database, tenantId: string): Promise<HistoryRow[]> =>
  database.query(
    `SELECT revision::int AS revision, changeset_id, resource_id, after
     FROM tenant_config.configuration_history WHERE tenant_id = $1 ORDER BY revision`,
    [tenantId],
  ) as Promise<HistoryRow[]>;

/** Everything that was written since is an item of what was applied, each once, in one piece. */
async function requireWrites(
  database: Database,
  tenantId: string,
  earlier: readonly HistoryRow[],
  all: readonly Applied[],
): Promise<void> {
  const rows = (await historyOf(database, tenantId)).slice(earlier.length);
  for (const { revision, changeset_id: id } of rows)
    assert.ok(
      all.some((row) => row.id === id),
      `revision ${revision} is of a change set`,
    );
  for (const { id, content } of all) {
    const own = rows.filter((row) => row.changeset_id === id);
    if (own.length === 0) continue;
    assert.deepEqual(
      own.map(({ after }) => after),
      content.items.map(({ after }) => after),
      `${id} wrote what was approved`,
    );
    const [first] = own;
    assert.deepEqual(
      own.map(({ revision }) => revision),
      own.map((_row, index) => first!.revision + index),
      `${id} has consecutive revisions`,
    );
  }
}

/** The tenant of a cluster with people for four eyes, and a policy for everything in it. */
export async function fourEyes({ tenant, database }: Cluster) {
  const { id: tenantId, admin: ada, operator: bob } = tenant;
  const member = { email: 'dora@interleaved.example', roles: ['tenant_admin'] };
  const { client: dora, user_id: doraId } = await addMember(ada, tenantId, member);
  const { status, text } = await ada.put(`/tenants/${tenantId}/config/change-policy`, {});
  assert.equal(status, 201, text);
  await grown(database, tenantId);
  return { database, tenantId, ada, dora, bob, doraId };
}

/**
 * Applies change sets while the process that does is killed, at a random moment: each is applied
 * once, whole, or not yet, and then it still can be.
 */
export async function killWhileApplying(cluster: Cluster, times: number): Promise<number> {
  const { database, tenantId, ada, dora } = await fourEyes(cluster);
  const base = `/tenants/${tenantId}/config/changesets`;
  let unanswered = 0;
  for (let time = 0; time < times; time += 1) {
    const items = ['one', 'two', 'three'].map((name) => ({
      action: 'put',
      path: `/tenants/${tenantId}/projects/killed-${time}-${name}/config`,
      body: { labels: { name } },
    }));
    const made = { title: 't', reason: 'r', items, apply: 'manual' };
    const answered = async (by: Client, path: string, body?: unknown): Promise<Seen> => {
      const answer = await by.post(path, body);
      assert.ok(answer.status < 300, answer.text);
      return answer.body as Seen;
    };
    const { id, digest } = await answered(ada, base, made);
    await answered(ada, `${base}/${id}/submit`);
    await answered(dora, `${base}/${id}/approve`, { digest });
    const applying = ada.post(`${base}/${id}/apply`).catch(() => undefined);
    await delay(Math.random() * 25);
    const victims = cluster.services.slice(0, 2);
    await Promise.all(victims.map((node) => killed(node)));
    const answer = await applying;
    if (answer?.status !== 200) unanswered += 1;
    for (const node of victims) await cluster.revive(node);
    await eventually(async () => {
      await ada.post(`${base}/${id}/apply`);
      const { body } = await ada.get(`${base}/${id}`);
      assert.equal(body.state, 'applied');
    });
    const rows = await database.query(
      `SELECT revision::int AS revision FROM tenant_config.configuration_history
       WHERE changeset_id = $1 ORDER BY revision`,
      [id],
    );
    const [first] = rows as { revision: number }[];
    assert.deepEqual(
      rows,
      items.map((_item, index) => ({ revision: first!.revision + index })),
    );
  }
  return unanswered;
}

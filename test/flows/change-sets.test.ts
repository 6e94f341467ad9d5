/**
 * Four eyes on configuration: every door that writes documents, and everybody who might approve
 * what they wrote themselves.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import type { DataSource } from 'typeorm';
import { ChangeSetEntity } from '../../services/tenant-config/schema.ts';
import { showChangeSets } from '../../shared/change-sets/metrics.ts';
import { isRead, type Contract } from '../../shared/contracts/contract.ts';
import { contractTable } from '../../shared/contracts/index.ts';
import { weekdays } from '../../shared/contracts/weekdays.ts';
import { bodies as documents, otherValues as changed } from '../support/document-bodies.ts';
import { auditEvents, requireProvedAudit } from '../support/audit.ts';
import { eventually, startCluster, type Cluster } from '../support/cluster.ts';
import { grown } from '../support/grown.ts';
import { holdLock } from '../support/held-lock.ts';
import { interleaveChanges } from '../support/interleaved-changes.ts';
import { watch } from '../support/event-stream.ts';
import { mailsTo } from '../support/mailboxes.ts';
import { operator } from '../support/operator.ts';
import { startReceiver, type Received } from '../support/receiver.ts';
import { inSoak, soakTest } from '../support/soak.ts';
import {
  addMember,
  Client,
  memberPassword,
  secretKey,
  signIn,
  type Answer,
} from '../support/strata.ts';

let cluster: Cluster;
let tenantId: string;
/** Ada and Dora are tenant_admins, Bob is an operator; Root and Rita administer the platform. */
const people: Record<'ada' | 'dora' | 'bob' | 'root' | 'rita', Client> = {} as never;
const ids: Record<string, string> = {};
/** Keys of Ada: her own, and one of a service account that she made. */
let ownKey: Client;
let accountKey: Client;

const contractOf = (name: string): Contract => contractTable[name as keyof typeof contractTable];
const pathOf = (name: string, address: Record<string, string>): string =>
  contractOf(name).rest!.path.replaceAll(/\{(.+?)\}/g, (_all, part: string) =>
    part === 'tenant_id' ? tenantId : address[part]!,
  );

/** What was answered before there was a policy. */
let before: Answer[];

beforeAll(async () => {
  cluster = await startCluster({
    gateways: 1,
    once: true,
    environment: {
      PLATFORM_ADMIN_EMAILS: 'admin@example.com,rita@example.com',
      WEBHOOK_ALLOW_HTTP: 'true',
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    },
  });
  const { tenant, platform } = cluster;
  // Of what keeps schedules there are two.
  await cluster.start('config-2', ['tenant-config', 'global-config']);
  tenantId = tenant.id;
  people.ada = tenant.admin;
  people.bob = tenant.operator;
  people.root = platform;
  const dora = { email: 'dora@four.example', roles: ['tenant_admin'] };
  ({ client: people.dora, user_id: ids.dora } = await addMember(tenant.admin, tenantId, dora));
  const rita = { email: 'rita@example.com', roles: ['viewer'] };
  ({ client: people.rita } = await addMember(tenant.admin, tenantId, rita));
  ids.ada = (await people.ada.get('/auth/me')).body.user.id;
  const keyOf = async (path: string): Promise<Client> => {
    const made = await people.ada.post(path, {
      name: 'ci',
      scopes: ['config:read', 'config:write', 'approvals:configure', 'approvals:decide'],
    });
    return new Client(people.ada.url, made.body.api_key);
  };
  ownKey = await keyOf('/auth/api-key');
  const account = await people.ada.post(`/tenants/${tenantId}/service-accounts`, {
    name: 'ci',
    roles: ['tenant_admin'],
  });
  ids.ci = account.body.id;
  accountKey = await keyOf(`/tenants/${tenantId}/service-accounts/${account.body.id}/api-keys`);
  before = [
    await people.ada.put(project(), { labels: { name: 'Free' } }),
    await people.root.put('/config/global/free', { config_value: 1 }),
    await people.ada.put(at('/config/change-policy'), { keys: ['nothing'] }),
    await people.root.put('/config/change-policy', { tenants: { keys: ['nothing'] } }),
  ];
  // So that there is something to change, and to remove.
  for (const [actions, { address, body }] of Object.entries(documents)) {
    if (actions.endsWith('policy')) continue;
    const by = actions.startsWith('global') ? people.root : people.ada;
    good(await by.put(pathOf(`${actions}.put`, address), body));
  }
  good(await people.ada.put(at('/config/change-policy'), {}));
  good(await people.root.put('/config/change-policy', { platform: {}, tenants: {} }));
  await grown(cluster.database, tenantId);
});
afterAll(async () => {
  await cluster?.stop();
});

const at = (rest: string): string => `/tenants/${tenantId}${rest}`;
const sets = (rest = ''): string => at(`/config/changesets${rest}`);
const good = (answer: Answer): Answer => {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
};
let count = 0;
const project = (): string => at(`/projects/project-${(count += 1)}/config`);
interface Item {
  readonly action: string;
  readonly path: string;
  readonly body?: unknown;
}
const platformEntry = (): Item => ({
  action: 'put',
  path: '/config/global/disabled',
  body: { config_value: 1 },
});
const putProject = (path = project(), name = 'Shop'): Item => ({
  action: 'put',
  path,
  body: { labels: { name } },
});

/** Opens a change set and submits it; answers it as it is then. */
async function submitted(by: Client, items: readonly Item[], more: object = {}) {
  const body = { title: 'A change', reason: 'It is time', items, apply: 'manual', ...more };
  const base = items[0]!.path.startsWith('/tenants') ? sets() : '/config/changesets';
  const opened = good(await by.post(base, body)).body;
  return good(await by.post(`${base}/${opened.id}/submit`)).body;
}
const approve = (by: Client, { id, digest }: { id: string; digest: string }): Promise<Answer> =>
  by.post(sets(`/${id}/approve`), { digest });
const apply = async (by: Client, { id }: { id: string }): Promise<Answer> =>
  good(await by.post(sets(`/${id}/apply`)));
/** Writes something that needs an approval, as it has to be done. */
async function underFourEyes(items: readonly Item[], more: object = {}): Promise<Answer> {
  const set = await submitted(people.ada, items, { apply: 'on_approval', ...more });
  const approved = good(await approve(people.dora, set));
  if (approved.body.state !== 'applied') throw new Error(approved.text);
  return approved;
}
const code = (answer: Answer) => [answer.status, answer.body?.detail?.code];
const refused = [403, 'change_approval_required'];

test('without a policy everybody writes as before, and a policy is made by one person', () => {
  expect(before.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
});

describe('every door', () => {
  /** Writes of another form than a document's. They name what they write by its revision or path. */
  const others: Record<string, () => Promise<unknown>> = {
    'tenant-config.rollback': async () => ({
      undo: await revisionOf(people.ada, at('/config/history')),
    }),
    'global-config.rollback': async () => ({
      undo: await revisionOf(people.root, '/config/history'),
    }),
    'global-config.plan.apply': async () => {
      const items = [{ action: 'put', path: '/config/global/walked', body: { config_value: 9 } }];
      const { digest } = good(await people.root.post('/config/plan', { items })).body;
      return { items, digest, reason: 'Walked' };
    },
    'global-config.rollouts.create': async () => {
      const body = { config_value: 9, is_public: true };
      const items = [{ action: 'put', path: '/config/global/walked', body }];
      const { digest } = good(await people.root.post('/config/plan', { items })).body;
      const stages = [{ percent: 100, bake_minutes: 0, gate: [] }];
      return { title: 'Walked', reason: 'Walked', items, digest, stages };
    },
  };
  /** They write what was approved. Other tests are about them. */
  const approved =
    /\.(?:changesets\.(?:approve|reject|apply|break-glass|review)|rollouts\.(?:advance|hold|resume|revert))$/;
  const revisionOf = async (by: Client, history: string): Promise<number> =>
    good(await by.get(history)).body.items.find(
      // To go back to these takes more.
      ({ config_type: type }: { config_type: string }) =>
        !['change_policy_config', 'event_destinations_config'].includes(type),
    ).revision;

  const writing = Object.entries(contractTable).filter(
    ([name, contract]) =>
      !isRead(contract) &&
      contract.access.level !== 'internal' &&
      !approved.test(name) &&
      (contract.leadsTo === 'configuration' ||
        contract.leadsTo === 'approvers' ||
        // Of proof, only what is a document.
        (contract.leadsTo === 'proof' && /\.(put|patch|delete)$/.test(name))),
  );

  const emergency = 'Payments are down, and no one else is awake';
  const historyRows = async (): Promise<unknown> =>
    cluster.database.query(
      `SELECT (SELECT count(*) FROM tenant_config.configuration_history) AS tenants,
         (SELECT count(*) FROM global_config.configuration_history) AS platform`,
    );

  let turns = 0;
  /** The soak has both at each door. */
  const keysInTurn = (): readonly Client[] => {
    const both = [ownKey, accountKey];
    return inSoak ? both : [both[(turns += 1) % 2]!];
  };

  test.each(writing)('%s writes nothing without an approval', async (name, { rest }) => {
    const [, actions] = /^(.*)\.(?:put|patch|delete)$/.exec(name) ?? [];
    const document = actions === undefined ? undefined : documents[actions];
    const other = others[name];
    // A new contract that writes configuration needs its row above, and so is tried.
    expect([name, document !== undefined || other !== undefined]).toEqual([name, true]);
    const isOfTenant = name.startsWith('tenant');
    const before = await historyRows();
    const path = pathOf(name, document?.address ?? {});
    const body = other ? await other() : changed(document!.body);
    const isDelete = rest!.method === 'DELETE';
    // A policy that becomes stricter is written by one person, and one that is looser is not.
    const isPolicy = actions?.endsWith('change-policy') && !isDelete;
    const sent = isPolicy
      ? isOfTenant
        ? { keys: ['walked'] }
        : { tenants: { keys: ['x'] } }
      : body;
    const given = isPolicy && rest!.method === 'PATCH' ? loosened(isOfTenant) : sent;
    const isOfKeys = contractOf(name).keyScope !== null;
    const ofTenant = isOfKeys ? [people.ada, ...keysInTurn()] : [people.ada];
    const callers = isOfTenant ? ofTenant : [people.root];
    for (const caller of callers) {
      const answer = await caller.send(rest!.method, path, isDelete ? {} : { body: given });
      expect([name, ...code(answer)]).toEqual([name, ...refused]);
      expect(answer.body.change_set.body.items).toHaveLength(1);
      const { params } = contractOf(name);
      expect(Object.keys(params.properties)).toContain('propose');
      expect(rest!.query).toContain('propose');
      const options = isDelete ? {} : { body: given };
      const proposed = await caller.send(rest!.method, `${path}?propose=true`, {
        ...options,
        headers: { 'x-change-reason': 'Walked' },
      });
      expect([name, proposed.status]).toEqual([name, 202]);
      const { path: at, digest } = proposed.body.change_set;
      const set = good(await caller.get(at)).body;
      expect(set).toMatchObject({ state: 'pending', digest, reason: 'Walked' });
      expect([set.items.length, set.authors.length]).toEqual([1, 1]);
      // Applied with its approval, it would reach all tenants at once.
      if (name === 'global-config.rollouts.create') expect(set.apply).toBe('manual');
      good(await caller.post(`${at}/cancel`));
      if (caller === ownKey || caller === accountKey) {
        const broken = await caller.send(rest!.method, path, {
          ...options,
          headers: { 'x-break-glass': emergency },
        });
        expect([name, ...code(broken)]).toEqual([name, 403, 'insufficient_scope']);
      }
    }
    expect(await historyRows()).toEqual(before);
  });
  const loosened = (isOfTenant: boolean): unknown =>
    isOfTenant ? { keys: ['walked'] } : { platform: null };

  test('the operator shell is no way around', async () => {
    const joining = { NATS_URL: cluster.environment.NATS_URL!, SECRET_KEY: secretKey };
    const said = await operator({ ...joining, STRATA_OPERATOR: 'grace' }, [
      'config',
      'set',
      'risk',
      tenantId,
      'global_settings.max_cost_impact_auto=45',
    ]);
    expect([said.code === 0, said.out + said.err]).toEqual([
      false,
      expect.stringContaining('four eyes'),
    ]);
  });

  test('what is refused says what would open a change set, which then writes it', async () => {
    const path = project();
    const answer = await people.ada.put(path, { labels: { name: 'Proposed' } });
    const { path: where, body } = answer.body.change_set;
    expect([where, body.items]).toEqual([
      sets(),
      [{ action: 'put', path, body: { labels: { name: 'Proposed' } } }],
    ]);
    const set = good(await people.ada.post(where, body)).body;
    good(await people.ada.post(sets(`/${set.id}/submit`)));
    expect((await approve(people.dora, set)).body.state).toBe('applied');
    expect((await people.ada.get(path)).body.labels.name).toBe('Proposed');
  });
});

describe('a write that is proposed', () => {
  test('says why, keeps its conditions, and is approved as any other', async () => {
    const path = project();
    const body = { labels: { name: 'Proposed' } };
    const propose = (headers: Record<string, string>) =>
      people.ada.send('PUT', `${path}?propose=true`, { body, headers });
    expect((await propose({})).body.errors).toEqual([
      { path: '/reason', message: expect.stringContaining('X-Change-Reason') },
    ]);
    const headers = { 'x-change-reason': 'It is time', 'if-none-match': '*' };
    const { body: answer, status } = await propose(headers);
    expect([status, answer.change_set.required]).toEqual([202, 1]);
    const set = good(await people.ada.get(answer.change_set.path)).body;
    expect(set.items).toEqual([{ action: 'put', path, body, base: null }]);
    expect(code(await approve(people.ada, set))).toEqual([403, 'approval_own_request']);
    expect((await approve(people.dora, set)).body.state).toBe('applied');
    expect((await people.ada.get(path)).body.labels.name).toBe('Proposed');
    expect((await propose(headers)).status).toBe(412);
  });

  test('and needs no approval is written', async () => {
    const path = at('/config/change-policy?propose=true');
    const tightened = await people.ada.put(path, { required: 1 });
    expect([tightened.status, tightened.body]).toEqual([200, { required: 1 }]);
  });

  test('on the bus is proposed as well', async () => {
    const joining = { NATS_URL: cluster.environment.NATS_URL!, SECRET_KEY: secretKey };
    const words = ['config', 'set', 'risk', tenantId, 'global_settings.max_cost_impact_auto=45'];
    const flags = ['--propose', '--reason', 'From the shell'];
    const said = await operator({ ...joining, STRATA_OPERATOR: 'grace' }, [...words, ...flags]);
    expect([said.code, said.out]).toEqual([0, expect.stringContaining('waits for approval at')]);
    const { items } = good(await people.ada.get(sets('?state=pending&limit=1'))).body;
    expect(items[0]).toMatchObject({ reason: 'From the shell', required: 1 });
    good(await people.dora.post(sets(`/${items[0].id}/cancel`)));
  });
});

describe('who approves', () => {
  const own = [403, 'approval_own_request'];

  test('not whoever wrote it, by themselves, their key, or a key that they made', async () => {
    const set = await submitted(people.ada, [putProject()]);
    expect(code(await approve(people.ada, set))).toEqual(own);
    for (const key of [ownKey, accountKey])
      expect(code(await approve(key, set))).toEqual([403, 'insufficient_scope']);
    for (const key of [ownKey, accountKey]) {
      const byKey = await submitted(key, [putProject()]);
      expect(code(await approve(people.ada, byKey))).toEqual(own);
      expect((await approve(people.dora, byKey)).status).toBe(200);
    }
  });

  test('not whoever edited it since, and no approval from before the edit counts', async () => {
    const path = project();
    const set = await submitted(people.ada, [putProject(path)], { apply: 'manual' });
    expect((await approve(people.dora, set)).body.state).toBe('approved');
    const edited = good(
      await people.ada.send('PATCH', sets(`/${set.id}`), {
        body: { items: [putProject(path, 'Something else')] },
      }),
    ).body;
    expect([edited.state, edited.approved_by]).toEqual(['draft', []]);
    expect(edited.digest).not.toBe(set.digest);
    expect((await people.ada.post(sets(`/${set.id}/apply`))).status).toBe(409);
    good(await people.ada.post(sets(`/${set.id}/submit`)));
    expect((await approve(people.dora, set)).status).toBe(409);
    good(await people.dora.send('PATCH', sets(`/${set.id}`), { body: { title: 'Better' } }));
    const again = good(await people.ada.post(sets(`/${set.id}/submit`))).body;
    for (const author of [people.ada, people.dora])
      expect(code(await approve(author, again))).toEqual(own);
    expect((await people.ada.get(path)).status).toBe(404);
  });

  test('nor the makers of two keys of an account, with which it was written and edited', async () => {
    const opened = good(
      await accountKey.post(sets(), { title: 'T', reason: 'R', items: [putProject()] }),
    ).body;
    const made = await people.dora.post(at(`/service-accounts/${ids.ci}/api-keys`), {
      name: 'other',
      scopes: ['config:write'],
    });
    const other = new Client(people.dora.url, made.body.api_key);
    good(await other.send('PATCH', sets(`/${opened.id}`), { body: { title: 'Better' } }));
    const set = good(await other.post(sets(`/${opened.id}/submit`))).body;
    for (const author of [people.ada, people.dora])
      expect(code(await approve(author, set))).toEqual(own);
  });

  test('not whom the author has just made an approver', async () => {
    const email = 'puppet@four.example';
    const puppet = await addMember(people.ada, tenantId, { email, roles: ['tenant_admin'] });
    const set = await submitted(people.ada, [putProject()]);
    expect(code(await approve(puppet.client, set))).toEqual([
      403,
      'approval_decider_added_by_requester',
    ]);
    const late = { email: 'late@four.example', roles: ['tenant_admin'] };
    const { client } = await addMember(people.dora, tenantId, late);
    expect(code(await approve(client, set))).toEqual([403, 'insufficient_role']);
  });

  test('nor whom the service account that wrote it has just made one, by a key of another maker', async () => {
    const made = await people.dora.post(at(`/service-accounts/${ids.ci}/api-keys`), {
      name: 'staff',
      scopes: ['identity:manage'],
    });
    const staff = new Client(people.dora.url, good(made).body.api_key);
    const email = 'puppet-of-ci@four.example';
    const puppet = await addMember(staff, tenantId, { email, roles: ['reviewer'] });
    const set = await submitted(accountKey, [putProject()]);
    expect(code(await approve(puppet.client, set))).toEqual([
      403,
      'approval_decider_added_by_requester',
    ]);
  });

  test.each([
    ['of the tenant', 'ada', 'dora', () => putProject()],
    ['of the platform', 'root', 'rita', () => platformEntry()],
  ] as const)('not whose account is disabled on the way: %s', async (of, author, by, item) => {
    const set = await submitted(people[author], [item()]);
    const isTenants = of === 'of the tenant';
    const base = isTenants ? sets() : '/config/changesets';
    const schema = isTenants ? 'tenant_config' : 'global_config';
    const row = `SELECT FROM ${schema}.change_sets WHERE id = $1 FOR UPDATE`;
    const { user } = (await people[by].get('/auth/me')).body;
    const lock = await holdLock(cluster.database, row, [set.id]);
    const approving = people[by].post(`${base}/${set.id}/approve`, { digest: set.digest });
    await lock.untilWaiting(1);
    const statusOf = (status: string): Promise<Answer> =>
      people.root.send('PATCH', `/auth/users/${user.id}`, { body: { status } });
    good(await statusOf('disabled'));
    await lock.release();
    expect(code(await approving)).toEqual([403, 'insufficient_role']);
    expect((await people[author].get(`${base}/${set.id}`)).body.approved_by).toEqual([]);
    good(await statusOf('active'));
    people[by] = await signIn(people[by].url, user.email, memberPassword);
  });

  test('one rejection ends it', async () => {
    const set = await submitted(people.ada, [putProject()]);
    const rejected = await people.dora.post(sets(`/${set.id}/reject`), { comment: 'Not now' });
    expect([rejected.body.state, rejected.body.note]).toEqual(['rejected', 'Not now']);
    expect((await approve(people.bob, set)).status).toBe(409);
    expect((await people.ada.post(sets(`/${set.id}/submit`))).status).toBe(409);
  });

  test('as many as the policy asks, each once', async () => {
    await underFourEyes([
      { action: 'put', path: at('/config/change-policy'), body: { required: 2 } },
    ]);
    const path = project();
    const set = await submitted(people.ada, [putProject(path)], { apply: 'on_approval' });
    expect((await approve(people.dora, set)).body.state).toBe('pending');
    expect((await approve(people.dora, set)).status).toBe(409);
    expect((await approve(people.bob, set)).body.state).toBe('applied');
    const back = await submitted(people.ada, [
      { action: 'put', path: at('/config/change-policy'), body: {} },
    ]);
    good(await approve(people.dora, back));
    good(await approve(people.bob, back));
    expect((await apply(people.ada, back)).body.state).toBe('applied');
  });
});

describe('applying', () => {
  test('is one transaction, with consecutive revisions, named everywhere', async () => {
    const items = [putProject(), putProject(), putProject()];
    const stream = await watch(people.ada, at('/config/watch'));
    const { body } = await underFourEyes(items);
    const [first] = body.revisions;
    await stream.until(({ id }) => id === first + 2);
    expect(stream.changes().map(({ data }) => data.changeset_id)).toEqual(items.map(() => body.id));
    stream.leave();
    expect(body.revisions).toEqual([first, first + 1, first + 2]);
    const history = good(await people.ada.get(at('/config/history?limit=3'))).body.items;
    expect(
      history.map((entry: Record<string, unknown>) => [
        entry.changeset_id,
        entry.changed_by,
        entry.reason,
      ]),
    ).toEqual(items.map(() => [body.id, ids.ada, 'It is time']));
    await eventually(async () => {
      const events = await auditEvents(people.ada, 'config.project.created');
      const ofSet = events.filter(
        ({ payload }) => (payload as { changeset_id?: string }).changeset_id === body.id,
      );
      expect(ofSet).toHaveLength(3);
    });
    await requireProvedAudit(people.ada);
  });

  test('of a base that somebody wrote since is stale, says who, and changes nothing', async () => {
    const [path, second] = [project(), project()];
    await underFourEyes([putProject(path)]);
    const set = await submitted(people.ada, [putProject(second), putProject(path, 'Mine')]);
    good(await approve(people.dora, set));
    await underFourEyes([putProject(path, 'Theirs')]);
    const stale = (await apply(people.ada, set)).body;
    expect([stale.state, stale.note]).toEqual([
      'stale',
      expect.stringMatching(`^Item 1, ${path}: .*revision \\d+, written by .+ at 2`),
    ]);
    expect((await people.ada.get(second)).status).toBe(404);
    const rebased = good(await people.ada.post(sets(`/${set.id}/rebase`))).body;
    expect([rebased.state, rebased.approved_by, rebased.moved]).toEqual([
      'draft',
      [],
      [{ resource: path, path: '/labels/name', before: 'Shop', after: 'Theirs' }],
    ]);
    const again = good(await people.ada.post(sets(`/${set.id}/submit`))).body;
    good(await approve(people.dora, again));
    expect((await apply(people.ada, again)).body.state).toBe('applied');
    expect((await people.ada.get(path)).body.labels.name).toBe('Mine');
  });

  test('asks again who may: an approver or an author without the right suspends it', async () => {
    const set = await submitted(people.ada, [putProject()]);
    good(await approve(people.dora, set));
    const member = at(`/users/${ids.dora}`);
    good(await people.ada.send('PATCH', member, { body: { roles: ['viewer'] } }));
    const suspended = (await apply(people.ada, set)).body;
    expect([suspended.state, suspended.note]).toEqual([
      'suspended',
      `${ids.dora} may not approve it any more.`,
    ]);
    good(await people.ada.send('PATCH', member, { body: { roles: ['tenant_admin'] } }));
    await grown(cluster.database, tenantId);
    expect((await apply(people.ada, set)).body.state).toBe('applied');

    const eve = { email: 'eve@four.example', roles: ['tenant_admin'] };
    const author = await addMember(people.ada, tenantId, eve);
    const hers = await submitted(author.client, [putProject()]);
    good(await approve(people.dora, hers));
    good(await people.ada.delete(at(`/users/${author.user_id}`)));
    expect((await apply(people.dora, hers)).body).toMatchObject({
      state: 'suspended',
      note: 'Its author has no right to write it any more.',
    });
  });

  test('what its author left behind is claimed by an edit', async () => {
    const eva = { email: 'eva@four.example', roles: ['tenant_admin'] };
    const { client, user_id: id } = await addMember(people.ada, tenantId, eva);
    const path = project();
    const set = await submitted(client, [putProject(path)]);
    good(await approve(people.dora, set));
    good(await people.ada.delete(at(`/users/${id}`)));
    expect((await apply(people.ada, set)).body.state).toBe('suspended');
    const body = { reason: 'Eva has left' };
    good(await people.ada.send('PATCH', sets(`/${set.id}`), { body }));
    const claimed = good(await people.ada.post(sets(`/${set.id}/submit`))).body;
    good(await approve(people.dora, claimed));
    expect((await apply(people.ada, claimed)).body.state).toBe('applied');
    const [entry] = good(await people.ada.get(at('/config/history?limit=1'))).body.items;
    expect(entry.changed_by).toBe(ids.ada);
  });

  test('is of what was approved, also when two ask at once', async () => {
    const path = project();
    const set = await submitted(people.ada, [putProject(path)]);
    good(await approve(people.dora, set));
    const answers = await Promise.all(
      [1, 2, 3].map(() => people.ada.post(sets(`/${set.id}/apply`))),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    const { items } = good(await people.ada.get(at(`/config/history?limit=5`))).body;
    expect(
      items.filter((entry: { changeset_id?: string }) => entry.changeset_id === set.id),
    ).toHaveLength(1);
  });

  test('of secrets keeps them sealed, and shows them masked', async () => {
    const secret = 'a-secret-of-the-webhook-0123456789';
    const webhook = { url: 'https://hooks.example/strata', secret };
    const set = await submitted(people.ada, [
      { action: 'patch', path: at('/config/notifications'), body: { webhook } },
    ]);
    expect(JSON.stringify(set)).not.toContain(secret);
    const rows = await cluster.database.query(
      'SELECT content::text FROM tenant_config.change_sets',
    );
    expect(JSON.stringify(rows)).not.toContain(secret);
    good(await approve(people.dora, set));
    expect((await apply(people.ada, set)).body.state).toBe('applied');
  });

  test('of secrets is rebased without losing what others wrote, or the secret', async () => {
    const path = at('/config/notifications');
    const patch = (webhook: object) => [{ action: 'patch', path, body: { webhook } }];
    const slower = await submitted(people.ada, patch({ retry_attempts: 5 }));
    const rotated = await submitted(people.ada, patch({ secret: 'another-secret-0123456789' }));
    await underFourEyes(patch({ timeout_seconds: 17 }));
    const rebased = good(await people.ada.post(sets(`/${slower.id}/rebase`))).body;
    expect(rebased.changes).toEqual([
      { resource: path, path: '/webhook/retry_attempts', after: 5 },
    ]);
    const refused = await people.ada.post(sets(`/${rotated.id}/rebase`));
    expect([refused.status, refused.body.detail.message]).toEqual([
      409,
      expect.stringMatching(/^Item 0 has a new secret/),
    ]);
    const items = patch({ secret: 'another-secret-0123456789' });
    const edited = await people.ada.send('PATCH', sets(`/${rotated.id}`), { body: { items } });
    expect(good(edited).body.changes).toMatchObject([{ path: '/webhook/secret' }]);
  });
});

soakTest('those who wait for a change set learn by mail what became of it', async () => {
  const named = (name: string) => ({ email: `${name}@told.example`, roles: ['tenant_admin'] });
  const nora = await addMember(people.ada, tenantId, named('nora'));
  const otto = await addMember(people.ada, tenantId, named('otto'));
  await grown(cluster.database, tenantId);
  const mailsOf = async (name: string, { id }: { id: string }) => {
    const all = await mailsTo(`${name}@told.example`);
    return all.filter((text) => text.includes(id));
  };
  const title = 'Read https://evil.example at once';
  const set = await submitted(nora.client, [putProject()], { title, apply: 'on_approval' });
  await eventually(async () =>
    expect(await mailsOf('otto', set)).toEqual([
      expect.stringContaining('waits for your approval'),
    ]),
  );
  // The mail leads to the page where it is decided.
  expect((await mailsOf('otto', set)).join()).toContain(
    `/console/tenants/${tenantId}/change-sets/${set.id}`,
  );
  expect((await approve(otto.client, set)).body.state).toBe('applied');
  await eventually(async () =>
    expect(await mailsOf('nora', set)).toEqual([expect.stringContaining('was applied')]),
  );
  // As if the node that recorded it had died before anybody was told.
  await cluster.database.query(
    `INSERT INTO audit.mail_notices (event_id, due_at)
     SELECT id, clock_timestamp() FROM audit.events WHERE target = $1 AND action = 'changeset.applied'`,
    [set.id],
  );
  const refused = await submitted(nora.client, [putProject()]);
  good(await otto.client.post(sets(`/${refused.id}/reject`), {}));
  await eventually(async () => {
    const applied = expect.stringContaining('was applied');
    expect(await mailsOf('nora', set)).toEqual([applied, applied]);
    expect(await cluster.database.query('SELECT FROM audit.mail_notices')).toEqual([]);
  });
  await eventually(async () =>
    expect(await mailsOf('nora', refused)).toEqual([expect.stringContaining('was rejected')]),
  );
  expect([...(await mailsOf('otto', set)), ...(await mailsOf('nora', set))].join()).not.toContain(
    'evil.example',
  );
});

test('webhooks and chat are told each step, once', async () => {
  const receiver = await startReceiver();
  const { origin } = new URL(receiver.url);
  const path = at('/config/notifications');
  const notify = (body: object) => underFourEyes([{ action: 'patch', path, body }]);
  await notify({
    webhook: { url: `${origin}/hook`, secret: null },
    chat: { google_chat: { webhook_url: `${origin}/chat?key=k&token=t`, include_links: true } },
    teams: { webhook_url: `${origin}/teams?sig=k` },
  });
  await cluster.database.query('DELETE FROM tenant_config.change_set_notices');
  try {
    const items = [putProject()];
    const stream = await watch(people.bob, sets('/watch'));
    await stream.until(({ event }) => event === 'ready');
    const set = await submitted(people.ada, items, { title: 'Shop <b>', apply: 'on_approval' });
    good(await approve(people.dora, set));
    // Steps wait while the notifier is away, and one that is handed over twice is queued once.
    const kept = await cluster.database.query<{ id: string; notice: object }>(
      `SELECT id, notice FROM tenant_config.change_set_notices WHERE notice->'data'->>'changeset_id' = $1`,
      [set.id],
    );
    expect(kept).toHaveLength(3);
    await cluster.start('notifier-1', ['notifier']);
    const steps = ['submitted', 'approved', 'applied'].map((step) => `changeset.${step}`);
    const hookOf =
      ({ id }: { id: string }) =>
      ({ path: to, text }: Received) =>
        to === '/hook' && text.includes(id);
    const received = await receiver.wait(hookOf(set), 3);
    expect(received.map(({ body }) => body.type).toSorted()).toEqual(steps.toSorted());
    const { data } = await stream.until(
      ({ event, data: { state } }) => event === 'changeset.changed' && state === 'applied',
    );
    expect(data).toEqual({ revision: data.revision, changeset_id: set.id, state: 'applied' });
    stream.leave();
    const last = received.find(({ body }) => body.type === 'changeset.applied')!;
    expect(last.body.data).toEqual({
      tenant_id: tenantId,
      changeset_id: set.id,
      state: 'applied',
      by: ids.dora,
      title: 'Shop <b>',
      reason: 'It is time',
      paths: [items[0]!.path],
      apply: 'on_approval',
      digest: set.digest,
      required: 1,
      groups: [],
      authors: [ids.ada],
      approved_by: [ids.dora],
      note: null,
      emergency: null,
    });
    const said = await receiver.wait(
      ({ path: to, text }) => to.startsWith('/chat') && text.includes(set.id),
      3,
    );
    expect(said.map(({ text }) => text).join()).not.toContain('<b>');
    for (const { text } of said)
      expect(text).toContain(`/console/tenants/${tenantId}/change-sets/`);
    const cards = await receiver.wait(
      ({ path: to, text }) => to.startsWith('/teams') && text.includes(set.id),
      3,
    );
    for (const { text } of cards) expect(text).toContain('AdaptiveCard');
    for (const { id, notice } of kept)
      await cluster.database.query(
        `INSERT INTO tenant_config.change_set_notices (id, tenant_id, notice, due_at)
         VALUES ($1, $2, $3, clock_timestamp())`,
        [id, tenantId, JSON.stringify(notice)],
      );
    await eventually(async () =>
      expect(await cluster.database.query('SELECT FROM tenant_config.change_set_notices')).toEqual(
        [],
      ),
    );
    const queued = await cluster.database.query(
      `SELECT FROM notifier.deliveries WHERE body LIKE '%' || $1 || '%'`,
      [set.id],
    );
    expect(queued).toHaveLength(9);

    const rejected = await submitted(people.ada, [putProject()]);
    good(await people.dora.post(sets(`/${rejected.id}/reject`), { comment: 'Not now' }));
    const [refusal] = await receiver.wait(({ body }) => body.data?.note === 'Not now');
    expect(refusal!.body).toMatchObject({
      type: 'changeset.rejected',
      data: { changeset_id: rejected.id, state: 'rejected' },
    });
  } finally {
    await notify({ webhook: null, chat: null, teams: null });
    await receiver.close();
  }
});

describe('a schedule', () => {
  const soon = (ms: number): { at: string } => ({ at: new Date(Date.now() + ms).toISOString() });
  const stateOf = async ({ id }: { id: string }) => good(await people.ada.get(sets(`/${id}`))).body;
  const scheduled = async (item: Item, apply: object) => {
    const set = await submitted(people.ada, [item], { apply });
    const { body } = good(await approve(people.dora, set));
    expect(body.state).toBe('scheduled');
    return body;
  };
  const makeDue = (id: string, ago: string): Promise<unknown> =>
    cluster.database.query(
      `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() - $2::interval WHERE id = $1`,
      [id, ago],
    );

  test('applies it at its time and not before, once, on one of the nodes', async () => {
    const path = project();
    const set = await scheduled(putProject(path), soon(1500));
    expect((await people.ada.post(sets(`/${set.id}/apply`))).status).toBe(409);
    await eventually(async () => expect((await stateOf(set)).state).toBe('applied'));
    const { updated_at: at } = (await stateOf(set)) as { updated_at: string };
    expect(Date.parse(at)).toBeGreaterThanOrEqual(Date.parse(set.apply.at));
    expect((await people.ada.post(sets(`/${set.id}/cancel`))).status).toBe(409);
    expect((await people.ada.get(path)).status).toBe(200);
  });

  test('that is too late already is not taken, new or edited', async () => {
    const late = [422, [{ path: '/apply/at', message: 'has passed' }]];
    const said = { title: 'Late', reason: 'Yesterday', items: [putProject()] };
    const refused = await people.ada.post(sets(), { ...said, apply: soon(-1_000_000) });
    expect([refused.status, refused.body.errors]).toEqual(late);
    const set = good(await people.ada.post(sets(), { ...said, apply: soon(-60_000) })).body;
    const body = { apply: soon(-86_400_000) };
    const edit = await people.ada.send('PATCH', sets(`/${set.id}`), { body });
    expect([edit.status, edit.body.errors]).toEqual(late);
    const other = { body: { apply: 'manual' } };
    good(await people.ada.send('PATCH', sets(`/${set.id}`), other));
  });

  test('is not held up by what is refused again and again', async () => {
    const set = await scheduled(putProject(), soon(60_000));
    // Of damaged rows, which stay as they are.
    const damaged = await cluster.database.query<{ id: string }>(
      `INSERT INTO tenant_config.change_sets (id, tenant_id, state, digest, content, created_at, updated_at, due_at)
       SELECT gen_random_uuid(), tenant_id, state, digest, '{}', created_at, updated_at, clock_timestamp() - interval '1 minute'
       FROM tenant_config.change_sets, generate_series(1, 20) WHERE id = $1 RETURNING id`,
      [set.id],
    );
    await makeDue(set.id, '1 second');
    await eventually(async () => expect((await stateOf(set)).state).toBe('applied'));
    await cluster.database.query('DELETE FROM tenant_config.change_sets WHERE id = ANY ($1)', [
      damaged.map(({ id }) => id),
    ]);
  });

  test('does not apply what was taken back or edited', async () => {
    const [one, other] = [project(), project()];
    const cancelled = await scheduled(putProject(one), soon(60_000));
    const edited = await scheduled(putProject(other), soon(60_000));
    good(await people.ada.post(sets(`/${cancelled.id}/cancel`)));
    good(await people.ada.send('PATCH', sets(`/${edited.id}`), { body: { reason: 'Another' } }));
    const last = await scheduled(putProject(), soon(60_000));
    for (const { id } of [cancelled, edited, last]) await makeDue(id, '1 second');
    await eventually(async () => expect((await stateOf(last)).state).toBe('applied'));
    expect([(await stateOf(cancelled)).state, (await stateOf(edited)).state]).toEqual([
      'cancelled',
      'draft',
    ]);
    for (const path of [one, other]) expect((await people.ada.get(path)).status).toBe(404);
  });

  test('asks again at its time who may, and does not make up for what is long past', async () => {
    const [unapproved, late] = [project(), project()];
    const set = await scheduled(putProject(unapproved), soon(60_000));
    const missed = await scheduled(putProject(late), soon(60_000));
    const member = at(`/users/${ids.dora}`);
    good(await people.ada.send('PATCH', member, { body: { roles: ['viewer'] } }));
    await makeDue(set.id, '1 second');
    await makeDue(missed.id, '16 minutes');
    await eventually(async () => {
      expect((await stateOf(set)).note).toBe(`${ids.dora} may not approve it any more.`);
      expect((await stateOf(missed)).note).toBe('Its time had passed before it could be applied.');
    });
    good(await people.ada.send('PATCH', member, { body: { roles: ['tenant_admin'] } }));
    await grown(cluster.database, tenantId);
    for (const path of [unapproved, late]) expect((await people.ada.get(path)).status).toBe(404);
  });

  test('does not apply what a key proposed that was revoked since, unless somebody takes it over', async () => {
    const scopes = ['config:read', 'config:write'];
    const made = good(await people.ada.post('/auth/api-key', { name: 'leaked', scopes })).body;
    const key = new Client(people.ada.url, made.api_key);
    const path = project();
    const proposedByKey = async () => {
      const set = await submitted(key, [putProject(path)], { apply: soon(60_000) });
      return good(await approve(people.dora, set)).body;
    };
    const [lost, edited] = [await proposedByKey(), await proposedByKey()];
    good(await people.ada.send('PATCH', sets(`/${edited.id}`), { body: { title: 'Mine' } }));
    good(await people.ada.post(sets(`/${edited.id}/submit`)));
    good(await approve(people.dora, await stateOf(edited)));
    good(await people.ada.delete(`/auth/api-keys/${made.id}`));
    await makeDue(lost.id, '1 second');
    await eventually(async () =>
      expect(await stateOf(lost)).toMatchObject({
        state: 'suspended',
        note: 'Its author has no right to write it any more.',
      }),
    );
    await makeDue(edited.id, '1 second');
    await eventually(async () => expect((await stateOf(edited)).state).toBe('applied'));
  });
});

describe('a schedule while things are stopped', () => {
  const at0 = { at: new Date(Date.now() + 3600_000).toISOString() };
  const stateOf = async (path: string) => {
    const { state, note } = good(await people.ada.get(path)).body;
    return [state, note];
  };
  const scheduled = async (item: Item): Promise<string> => {
    const set = await submitted(people.ada, [item], { apply: at0 });
    expect(good(await approve(people.dora, set)).body.state).toBe('scheduled');
    return set.id;
  };
  const due = (ids: readonly string[]): Promise<unknown> =>
    cluster.database.query(
      `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() - interval '1 second' WHERE id = ANY ($1)`,
      [ids],
    );
  const switchAutomation = (automation_enabled: boolean): Promise<unknown> =>
    underFourEyes([
      {
        action: 'patch',
        path: at('/config/risk'),
        body: { global_settings: { automation_enabled } },
      },
    ]);
  const always = { during: [{ days: weekdays, start: '00:00', end: '00:00', timezone: 'UTC' }] };

  test.each([
    ['bounds', { automation_enabled: { const: false } }, 'The emergency stop holds.'],
    ['freezes', { quiet: always }, 'The freeze quiet holds.'],
  ])('is suspended by %s that hold then, and lifts them', async (kind, stop, note) => {
    const path = at(`/config/${kind}`);
    const target = project();
    const waiting = await scheduled(putProject(target));
    const before = good(await people.ada.get(path)).body;
    // A stop holds also where layers say nothing else.
    const isOff = kind === 'bounds';
    if (isOff) await switchAutomation(false);
    await underFourEyes([{ action: 'put', path, body: stop }]);
    await due([waiting]);
    await eventually(async () =>
      expect(await stateOf(sets(`/${waiting}`))).toEqual(['suspended', note]),
    );
    expect((await people.ada.get(target)).status).toBe(404);
    const lifting = await scheduled({ action: 'put', path, body: before });
    await due([lifting]);
    await eventually(async () =>
      expect(await stateOf(sets(`/${lifting}`))).toEqual(['applied', null]),
    );
    if (isOff) await switchAutomation(true);
    expect((await apply(people.ada, { id: waiting })).body.state).toBe('applied');
  });

  test('is suspended by a freeze that is written while it begins', async () => {
    const path = at('/config/freezes');
    const waiting = await scheduled(putProject());
    const before = good(await people.ada.get(path)).body;
    const lock = await holdLock(
      cluster.database,
      'SELECT id FROM tenant_config.change_sets WHERE id = $1 FOR KEY SHARE',
      [waiting],
    );
    try {
      await due([waiting]);
      // Both nodes have looked for stops, and begin.
      await lock.untilWaiting(2);
      await underFourEyes([{ action: 'put', path, body: { quiet: always } }]);
    } finally {
      await lock.release();
    }
    await eventually(async () =>
      expect(await stateOf(sets(`/${waiting}`))).toEqual(['suspended', 'The freeze quiet holds.']),
    );
    await underFourEyes([{ action: 'put', path, body: before }]);
  });
});

test('figures say who waits for whom, and who has missed their time', async () => {
  const registry = new Registry();
  const { database } = cluster;
  const source = { query: (sql: string) => database.query(sql) } as unknown as DataSource;
  showChangeSets(registry, 'tenants', source, ChangeSetEntity);
  const read = async () => {
    const measured = await registry.getMetricsAsJSON();
    return Object.fromEntries(
      measured.map(({ name, values }) => [name.replace('strata_', ''), values[0]!.value]),
    );
  };
  const before = await read();
  const waiting = await submitted(people.ada, [putProject()]);
  const at1 = { at: new Date(Date.now() + 60_000).toISOString() };
  const missed = await submitted(people.ada, [putProject()], { apply: at1 });
  good(await approve(people.dora, missed));
  const broken = good(
    await people.ada.send('PUT', project(), {
      body: { labels: { name: 'Now' } },
      headers: { 'x-break-glass': 'Payments are down and no one else is awake' },
    }),
  );
  expect(broken.status).toBe(201);
  await database.query(
    `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() - interval '16 minutes' WHERE id = $1`,
    [missed.id],
  );
  await database.query(
    `UPDATE tenant_config.change_sets SET content = replace(content::text, $2, '2001-01-01T00:00:00.000Z')::json WHERE id = $1`,
    [waiting.id, good(await people.ada.get(sets(`/${waiting.id}`))).body.updated_at],
  );
  await eventually(async () => {
    const now = await read();
    expect(now.change_sets_missed).toBe(before.change_sets_missed! + 1);
    expect(now.change_sets_pending_seconds).toBeGreaterThan(20 * 365 * 86_400);
    expect(now.break_glass_unreviewed_seconds).toBeGreaterThan(0);
  });
  const [entry] = good(await people.ada.get(at('/config/history?limit=1'))).body.items;
  good(await people.dora.post(sets(`/${entry.changeset_id}/review`)));
  for (const { id } of [waiting, missed]) good(await people.ada.post(sets(`/${id}/cancel`)));
  const after = await read();
  expect([after.change_sets_missed, after.break_glass_unreviewed_seconds]).toEqual([
    before.change_sets_missed,
    0,
  ]);
});

describe('an emergency', () => {
  const reason = 'Payments are down and no one else is awake';
  const draft = async (by: Client): Promise<{ id: string }> => {
    const body = { title: 'Now', reason: 'It is down', items: [putProject()] };
    return good(await by.post(sets(), body)).body;
  };
  const breakGlass = (by: Client, { id }: { id: string }, why = reason): Promise<Answer> =>
    by.post(sets(`/${id}/break-glass`), { reason: why });

  // Nobody gets more than twenty of these mails in an hour, and the tests before have used them up.
  beforeAll(async () => {
    await cluster.database.query(`DELETE FROM strata.shares WHERE what = 'power notice'`);
  });

  test('is applied at once by an administrator with a reason, and is told, and reviewed', async () => {
    const [first, second] = [await draft(people.ada), await draft(people.ada)];
    expect((await breakGlass(people.ada, first, 'too short')).status).toBe(422);
    for (const by of [ownKey, accountKey, people.bob])
      expect((await breakGlass(by, first)).status).toBe(403);
    const both = await Promise.all([breakGlass(people.ada, first), breakGlass(people.ada, second)]);
    // The second of the same person waits for the review of the first.
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const applied = both.find(({ status }) => status === 200)!.body;
    const other = applied.id === first.id ? second : first;
    expect(applied).toMatchObject({
      state: 'applied',
      break_glass: { by: ids.ada, reason, reviewed_by: null },
    });
    expect((await breakGlass(people.ada, other)).body.detail.message).toContain(applied.id);
    const [entry] = good(await people.ada.get(at('/config/history?limit=1'))).body.items;
    expect(entry.changeset_id).toBe(applied.id);
    await eventually(async () => {
      const [event] = await auditEvents(people.ada, 'changeset.broke_glass');
      expect(event!.payload).toMatchObject({ power: 'approvers', break_glass: { reason } });
    });
    await eventually(async () =>
      expect(await mailsTo('dora@four.example')).toContainEqual(
        expect.stringContaining('changeset.broke_glass'),
      ),
    );
    const review = (by: Client) => by.post(sets(`/${applied.id}/review`));
    expect((await review(people.ada)).status).toBe(403);
    expect((await review(people.dora)).body.break_glass.reviewed_by).toBe(ids.dora);
    expect((await breakGlass(people.ada, other)).body.state).toBe('applied');
    good(await people.dora.post(sets(`/${other.id}/review`)));
  });

  test('is not reviewed by whom the one who broke the glass has just made a member', async () => {
    const ivy = { email: 'ivy@four.example', roles: ['reviewer'] };
    const { client: added } = await addMember(people.ada, tenantId, ivy);
    const { id } = await draft(people.dora);
    good(await breakGlass(people.ada, { id }));
    const review = (by: Client) => by.post(sets(`/${id}/review`));
    expect((await review(added)).body.detail.code).toBe('approval_decider_added_by_requester');
    good(await review(people.bob));
  });

  test('is not reviewed by the operator who made it, whatever they call themselves', async () => {
    const joining = { NATS_URL: cluster.environment.NATS_URL!, SECRET_KEY: secretKey };
    const step = async (name: string, verb: string, id: string, more: object = {}) => {
      const params = { tenant_id: tenantId, changeset_id: id, ...more };
      const words = ['call', `tenant-config.changesets.${verb}`, JSON.stringify(params)];
      const { code: exit, err } = await operator({ ...joining, STRATA_OPERATOR: name }, words);
      return [exit, err];
    };
    const [first, second] = [await draft(people.dora), await draft(people.dora)];
    const why = { body: { reason } };
    expect(await step('grace', 'break-glass', first.id, why)).toEqual([0, '']);
    const refused = (text: string) => [1, expect.stringContaining(text)];
    expect(await step('hank', 'review', first.id)).toEqual(refused('approval_own_request'));
    expect(await step('hank', 'break-glass', second.id, why)).toEqual(refused(first.id));
    good(await people.ada.post(sets(`/${first.id}/review`)));
  });

  test('is a header of the write, too: written at once, and reviewed', async () => {
    const path = project();
    const write = (by: Client, headers: Record<string, string>) =>
      by.send('PUT', path, { body: { labels: { name: 'Now' } }, headers });
    const named = { 'x-break-glass': reason };
    expect((await write(people.ada, { 'x-break-glass': 'too short' })).status).toBe(422);
    for (const by of [ownKey, accountKey, people.bob])
      expect((await write(by, named)).status).toBe(403);
    expect((await people.ada.get(path)).status).toBe(404);
    const written = await write(people.ada, named);
    expect([written.status, written.body.labels.name]).toEqual([201, 'Now']);
    const [entry] = good(await people.ada.get(at('/config/history?limit=1'))).body.items;
    expect(entry).toMatchObject({ reason, break_glass: true, changed_by: ids.ada });
    const set = good(await people.ada.get(sets(`/${entry.changeset_id}`))).body;
    expect(set).toMatchObject({ state: 'applied', break_glass: { by: ids.ada, reason } });
    const waiting = await people.ada.send('PUT', project(), {
      body: { labels: { name: 'Again' } },
      headers: named,
    });
    expect([waiting.status, waiting.body.detail.message]).toEqual([
      409,
      expect.stringContaining(set.id),
    ]);
    expect(good(await people.ada.get(sets('?state=draft'))).body.items).not.toContainEqual(
      expect.objectContaining({ reason }),
    );
    good(await people.dora.post(sets(`/${set.id}/review`)));
  });
});

soakTest('whatever order it comes in, what is applied is what others approved', async () => {
  const { ada, dora, bob } = people;
  const { database } = cluster;
  const given = { database, tenantId, ada, dora, bob, doraId: ids.dora!, rounds: 30, seed: 7 };
  const { applied, refused } = await interleaveChanges(given);
  // It shows something only where much of each came about.
  expect(applied).toBeGreaterThan(2);
  expect(refused).toBeGreaterThan(20);
});

describe('the platform', () => {
  const approveThere = (by: Client, { id, digest }: { id: string; digest: string }) =>
    by.post(`/config/changesets/${id}/approve`, { digest });

  test('has two administrators for its own documents', async () => {
    const item = { action: 'put', path: '/config/global/walked', body: { config_value: 10 } };
    const set = await submitted(people.root, [item], { apply: 'on_approval' });
    expect(code(await approveThere(people.root, set))).toEqual([403, 'approval_own_request']);
    expect((await people.ada.get(`/config/changesets/${set.id}`)).status).toBe(403);
    expect((await approveThere(people.rita, set)).body).toMatchObject({ state: 'applied' });
    expect((await people.root.get('/config/global/walked')).body.config_value).toBe(10);
  });

  test('a purge takes what change sets have of the document', async () => {
    const path = '/config/global/mistake';
    const secret = 'stored-by-mistake';
    for (const value of [secret, 'mended']) {
      const item = { action: 'put', path, body: { config_value: value } };
      const set = await submitted(people.root, [item], { apply: 'on_approval' });
      good(await approveThere(people.rita, set));
    }
    const name = { config_type: 'global_config', resource_id: 'mistake' };
    good(await people.root.post('/config/history/purge', { ...name, reason: 'A secret' }));
    const rows = await cluster.database.query(
      'SELECT content::text FROM global_config.change_sets',
    );
    expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test('a plan is applied at once in an emergency, whole or not at all, and reviewed', async () => {
    const paths = ['/config/global/down-one', '/config/global/down-two'];
    const items = paths.map((path) => ({ action: 'put', path, body: { config_value: 1 } }));
    const { digest } = good(await people.root.post('/config/plan', { items })).body;
    const send = (why: string) =>
      people.root.send('POST', '/config/plan/apply', {
        body: { items, digest },
        headers: { 'x-break-glass': why },
      });
    expect((await send('too short')).status).toBe(422);
    const written = good(await send('Payments are down and no one else is awake')).body;
    const revisions = [written.revision - 1, written.revision];
    expect(written.items).toEqual(
      paths.map((path, index) => ({
        action: 'put',
        path,
        outcome: 'created',
        revision: revisions[index],
      })),
    );
    const [entry] = good(await people.root.get('/config/history?limit=1')).body.items;
    const path = `/config/changesets/${entry.changeset_id}`;
    expect(good(await people.rita.post(`${path}/review`)).body).toMatchObject({
      state: 'applied',
      revisions,
      break_glass: { reason: 'Payments are down and no one else is awake' },
    });
  });

  test("a tenant's change set is of its own documents alone", async () => {
    for (const path of [
      '/config/global/walked',
      '/tenants/3f9d1c52-7a41-4f0e-9b6c-0d5e8a1b2c3d/config/risk',
    ]) {
      const body = { title: 't', reason: 'r', items: [{ action: 'put', path, body: {} }] };
      expect(code(await people.ada.post(sets(), body))).toEqual([422, 'validation_failed']);
    }
  });
});

soakTest('those who have not approved a change set are reminded once', async () => {
  const named = (name: string) => ({ email: `${name}@waits.example`, roles: ['tenant_admin'] });
  const [vera, will, zoe] = await Promise.all(
    ['vera', 'will', 'zoe'].map((name) => addMember(people.ada, tenantId, named(name))),
  );
  await grown(cluster.database, tenantId);
  const set = await submitted(vera!.client, [putProject()]);
  // As a policy that asks for two people makes it.
  await cluster.database.query(
    `UPDATE tenant_config.change_sets SET content = jsonb_set(content::jsonb, '{required}', '2')::json
     WHERE id = $1`,
    [set.id],
  );
  const at18Hours = `SELECT extract(epoch FROM due_at - (content->>'submitted_at')::timestamptz)::int AS seconds
     FROM tenant_config.change_sets WHERE id = $1`;
  expect(await cluster.database.query(at18Hours, [set.id])).toEqual([{ seconds: 18 * 3600 }]);
  good(await approve(will!.client, set));
  const pass = () =>
    cluster.database.query(
      `UPDATE tenant_config.change_sets SET due_at = due_at - interval '18 hours' WHERE id = $1`,
      [set.id],
    );
  const mailsOf = async (name: string) => {
    const all = await mailsTo(`${name}@waits.example`);
    return all.filter((text) => text.includes(set.id) && text.includes('still waits'));
  };
  await pass();
  await eventually(async () => expect(await mailsOf('zoe')).toHaveLength(1));
  // The next one that is due is reminded of after it, and it is not again.
  await pass();
  const next = await submitted(vera!.client, [putProject()]);
  await cluster.database.query(
    `UPDATE tenant_config.change_sets SET due_at = clock_timestamp() WHERE id = $1`,
    [next.id],
  );
  await eventually(async () =>
    expect((await mailsTo('zoe@waits.example')).join()).toMatch(
      new RegExp(`still waits[^]*${next.id}`),
    ),
  );
  expect(await mailsOf('zoe')).toHaveLength(1);
  expect([...(await mailsOf('vera')), ...(await mailsOf('will'))]).toEqual([]);
  const events = await auditEvents(people.ada, 'changeset.reminded');
  expect(events.filter(({ target }) => target === set.id)).toMatchObject([
    { actor: { type: 'service', id: 'tenant-config' } },
  ]);
  expect((await approve(zoe!.client, set)).body.state).toBe('approved');
});

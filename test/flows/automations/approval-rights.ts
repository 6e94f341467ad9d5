/**
 * Who may decide which approval: every asker × decider × groups × policy, each cell with its
 * outcome. Then N of M under races, and what the audit proves of a decision.
 */
import { beforeAll, describe, expect, test } from '@jest/globals';
import { createDecisionLinks } from '../../../services/notifier/rules/decision-links.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import { lockExpression } from '../../../shared/database/fair-locks.ts';
import type { AuditEvent } from '../../support/audit.ts';
import { eventually, metricOf } from '../../support/cluster.ts';
import { grown } from '../../support/grown.ts';
import { holdLock } from '../../support/held-lock.ts';
import { inSoak } from '../../support/soak.ts';
import {
  addMember,
  Client,
  createTenant,
  memberPassword,
  secretKey,
  signIn,
  type Answer,
  type TenantFixture,
} from '../../support/strata.ts';
import { database, platform, strata } from './strata.ts';

describe('who may approve', () => {
  const links = createDecisionLinks({
    webhook_secret: null,
    secret_key: secretKey,
    secret_key_previous: null,
  });
  const listed = 'listed@elsewhere.example';
  let tenant: TenantFixture;
  /**
   * Ada and Dora are tenant_admins, Bob and Carl operators, Vic is a viewer; Bob and Vic are in sre.
   */
  const people: Record<string, Client> = {};
  const ids: Record<string, string> = {};
  const emails: Record<string, string> = {};
  /** By whose they are; of those of service accounts the part after the slash says who made them. */
  const keys: Record<string, Client> = {};

  const path = (rest = ''): string => `/tenants/${tenant.id}${rest}`;
  async function keyOf(owner: Client, at: string, scopes: string[]): Promise<Client> {
    const made = await owner.post(at, { name: 'ci', scopes });
    if (made.status !== 201) throw new Error(made.text);
    return new Client(strata.url, made.body.api_key);
  }
  const everything = ['approvals:read', 'approvals:write', 'approvals:decide'];

  beforeAll(async () => {
    tenant = await createTenant(strata.url, platform, 'Rights');
    const members: [name: string, role: string, groups: string[]][] = [
      ['dora', 'tenant_admin', []],
      ['bob', 'operator', ['sre']],
      ['carl', 'operator', ['others']],
      ['vic', 'viewer', ['sre']],
      ['wim', 'viewer', ['watchers']],
    ];
    people.ada = tenant.admin;
    emails.ada = tenant.emails.tenant_admin!;
    for (const [name, role, groups] of members) {
      emails[name] = `${name}@rights.example`;
      const { client, user_id } = await addMember(tenant.admin, tenant.id, {
        email: emails[name],
        roles: [role],
        groups,
      });
      people[name] = client;
      ids[name] = user_id;
    }
    ids.ada = (await tenant.admin.get('/auth/me')).body.user.id;
    keys.bob = await keyOf(people.bob!, '/auth/api-key', everything);
    keys['bob, without the scope'] = await keyOf(people.bob!, '/auth/api-key', ['approvals:write']);
    for (const name of ['deploy', 'review']) {
      const account = await tenant.admin.post(path('/service-accounts'), {
        name,
        roles: ['operator'],
      });
      ids[name] = account.body.id;
      for (const maker of ['ada', 'dora'])
        keys[`${name}/${maker}`] = await keyOf(
          people[maker]!,
          path(`/service-accounts/${account.body.id}/api-keys`),
          everything,
        );
    }
  });

  const grow = (): Promise<void> => grown(database, tenant.id);

  /** `watchers` has a viewer alone, `ghosts` nobody. */
  const chains = { none: [], sre: ['sre'], ghosts: ['ghosts'], watchers: ['watchers'] };
  type Chain = keyof typeof chains;
  const configure = async (policy: object | undefined): Promise<void> => {
    const saved = await tenant.admin.put(path('/config/notifications'), {
      approver_groups: {
        action_overrides: { ...chains, hops: ['sre', 'leads'], unled: ['ghosts', 'sre'] },
      },
      email: { approval_recipients: [listed] },
      ...(policy && { approval_policy: policy }),
    });
    expect([saved.status, saved.text]).toEqual([200, expect.any(String)]);
    await grow();
  };
  const askers: Record<string, () => Client> = {
    ada: () => people.ada!,
    bob: () => people.bob!,
    "bob's key": () => keys.bob!,
    'deploy/ada': () => keys['deploy/ada']!,
  };
  async function ask(by: string, action: string, fields: object = {}) {
    const body = { action, risk_level: 'low', title: 'Scale', ...fields };
    const made = await askers[by]!().post(path('/approvals'), body);
    expect([made.status, made.text]).toEqual([202, expect.any(String)]);
    return made.body;
  }
  const decide = (client: Client, id: string, decision = 'approve'): Promise<Answer> =>
    client.post(path(`/approvals/${id}/decision`), { decision });
  const linkOf = (
    recipient: string,
    approvalId: string,
    decision: 'approve' | 'deny' = 'approve',
  ) =>
    links.issue({
      approvalId,
      tenantId: tenant.id,
      decision,
      recipient,
      expiresAt: new Date(Date.now() + 600_000),
    });
  const follow = (recipient: string, id: string): Promise<Answer> =>
    new Client(strata.url).post(`/approvals/decision?token=${linkOf(recipient, id)}`);

  const [ok, role, scope, own] = [
    'ok',
    'insufficient_role',
    'insufficient_scope',
    'approval_own_request',
  ];
  interface DeciderRow {
    readonly by: (id: string) => Promise<Answer>;
    /** An API key, which decides only under a policy with `machines`. */
    readonly isKey?: true;
    /** Askers who are the same, or who made the key. */
    readonly sameAs: readonly string[];
    /** For an approval of somebody else's. */
    readonly outcomes: Readonly<Record<Chain, string>>;
  }
  const always = (outcome: string) => ({
    none: outcome,
    sre: outcome,
    ghosts: outcome,
    watchers: outcome,
  });
  const admin = { none: ok, sre: role, ghosts: ok, watchers: ok };
  const inSre = { none: ok, sre: ok, ghosts: role, watchers: role };
  const inNoGroup = { none: ok, sre: role, ghosts: role, watchers: role };
  const asBob = ['bob', "bob's key"];
  const deciders: Record<string, DeciderRow> = {
    ada: {
      by: (id) => decide(people.ada!, id),
      sameAs: ['ada', 'deploy/ada'],
      outcomes: admin,
    },
    dora: { by: (id) => decide(people.dora!, id), sameAs: [], outcomes: admin },
    bob: { by: (id) => decide(people.bob!, id), sameAs: asBob, outcomes: inSre },
    carl: { by: (id) => decide(people.carl!, id), sameAs: [], outcomes: inNoGroup },
    vic: { by: (id) => decide(people.vic!, id), sameAs: [], outcomes: always(role) },
    "bob's key": {
      by: (id) => decide(keys.bob!, id),
      isKey: true,
      sameAs: asBob,
      outcomes: inSre,
    },
    "bob's key without the scope": {
      by: (id) => decide(keys['bob, without the scope']!, id),
      sameAs: [],
      outcomes: always(scope),
    },
    'deploy, by a key that Dora made': {
      by: (id) => decide(keys['deploy/dora']!, id),
      isKey: true,
      sameAs: ['deploy/ada'],
      outcomes: inNoGroup,
    },
    'review, by a key that Ada made': {
      by: (id) => decide(keys['review/ada']!, id),
      isKey: true,
      sameAs: ['ada', 'deploy/ada'],
      outcomes: inNoGroup,
    },
    'review, by a key that Dora made': {
      by: (id) => decide(keys['review/dora']!, id),
      isKey: true,
      sameAs: [],
      outcomes: inNoGroup,
    },
    "Ada's link": {
      by: (id) => follow(emails.ada!, id),
      sameAs: [],
      outcomes: admin,
    },
    "Bob's link": { by: (id) => follow(emails.bob!, id), sameAs: [], outcomes: inSre },
    "Carl's link": { by: (id) => follow(emails.carl!, id), sameAs: [], outcomes: inNoGroup },
    "Vic's link": { by: (id) => follow(emails.vic!, id), sameAs: [], outcomes: always(role) },
    'the link of a listed address': {
      by: (id) => follow(listed, id),
      sameAs: [],
      outcomes: { none: ok, sre: role, ghosts: ok, watchers: ok },
    },
    'the link of an address that is not listed': {
      by: (id) => follow('other@elsewhere.example', id),
      sameAs: [],
      outcomes: always(role),
    },
  };
  /** A link whose reader has no right now says nothing else, not even whose request it is. */
  const linkSameAs: Record<
    string,
    { readonly askers: readonly string[]; readonly chains: Chain[] }
  > = {
    "Ada's link": { askers: ['ada', 'deploy/ada'], chains: ['none', 'ghosts', 'watchers'] },
    "Bob's link": { askers: asBob, chains: ['none', 'sre'] },
  };

  /**
   * Each asker, each chain and each policy with each of the others; the soak has all three with each
   * other. `shift` says which chain comes with an asker.
   */
  interface PolicyRow {
    readonly policy: object | undefined;
    readonly allowSelf: boolean;
    readonly machines: boolean;
    readonly shift: number;
  }
  describe.each<[name: string, PolicyRow]>([
    ['no policy', { policy: undefined, allowSelf: false, machines: false, shift: 0 }],
    ['allow_self', { policy: { allow_self: true }, allowSelf: true, machines: false, shift: 1 }],
    ['machines', { policy: { machines: true }, allowSelf: false, machines: true, shift: 2 }],
    [
      'both',
      {
        policy: { machines: true, allow_self: true },
        allowSelf: true,
        machines: true,
        shift: 3,
      },
    ],
  ])('%s', (_name, { policy, allowSelf, machines, shift }) => {
    beforeAll(() => configure(policy));

    const cells = Object.keys(askers).flatMap((asker, row) =>
      (Object.keys(chains) as Chain[])
        .filter((_chain, column) => inSoak || (row + column + shift) % 4 === 0)
        .map((chain) => [asker, chain] as const),
    );
    test.each(cells)('%s asks, groups: %s', async (asker, chain) => {
      // Whoever is refused leaves it pending for the next.
      let { id } = await ask(asker, chain);
      for (const [name, { by, isKey, sameAs, outcomes }] of Object.entries(deciders)) {
        const answer = await by(id);
        const ofLink = linkSameAs[name];
        const isOwn =
          sameAs.includes(asker) ||
          (ofLink?.askers.includes(asker) === true && ofLink.chains.includes(chain));
        const otherwise = isOwn && !allowSelf ? own : outcomes[chain];
        const expected = isKey && !machines ? scope : otherwise;
        const outcome = answer.status === 200 ? ok : answer.body.detail.code;
        expect([name, outcome]).toEqual([name, expected]);
        if (expected !== ok) {
          expect(answer.status).toBe(403);
          continue;
        }
        expect(answer.body.state).toBe('approved');
        ({ id } = await ask(asker, chain));
      }
    });
  });

  test('groups decide from the hop on that asks them, and those before them still do', async () => {
    await configure(undefined);
    const eve = await addMember(tenant.admin, tenant.id, {
      email: 'eve@rights.example',
      roles: ['operator'],
      groups: ['leads'],
    });
    await grow();
    const [first, second] = [await ask('ada', 'hops'), await ask('ada', 'hops')];
    expect((await decide(eve.client, first.id)).body.detail.code).toBe('insufficient_role');
    await database.query(`UPDATE notifier.approvals SET hop = 1 WHERE id = ANY($1)`, [
      [first.id, second.id],
    ]);
    expect((await decide(eve.client, first.id)).status).toBe(200);
    expect((await decide(people.bob!, second.id)).status).toBe(200);
    await tenant.admin.delete(path(`/users/${eve.user_id}`));
  });

  test('the right of whoever decides while it is escalated is that of the hop that decides', async () => {
    await configure(undefined);
    const { id } = await ask('bob', 'unled');
    const lock = await holdLock(database, 'UPDATE notifier.approvals SET hop = 1 WHERE id = $1', [
      id,
    ]);
    // At hop 0 the group has nobody, so a tenant_admin may; at hop 1 there is somebody.
    const deciding = decide(people.ada!, id);
    await lock.untilWaiting(1);
    await lock.commit();
    expect((await deciding).body.detail.code).toBe('insufficient_role');
  });

  test('whoever lost the right to decide on the way to the decision has not decided', async () => {
    await configure(undefined);
    const { id } = await ask('ada', 'sre');
    const lock = await holdLock(
      database,
      'SELECT id FROM notifier.approvals WHERE id = $1 FOR UPDATE',
      [id],
    );
    const deciding = decide(people.bob!, id);
    await lock.untilWaiting(1);
    const taken = await tenant.admin.patch(path(`/users/${ids.bob}`), { groups: ['others'] });
    expect(taken.status).toBe(200);
    await lock.release();
    expect((await deciding).body.detail.code).toBe('insufficient_role');
    expect((await tenant.admin.get(path(`/approvals/${id}`))).body.state).toBe('pending');
    await tenant.admin.patch(path(`/users/${ids.bob}`), { groups: ['sre'] });
  });

  describe('an account or a credential that ends on the way to the decision', () => {
    const eve = { email: 'eve@ending.example', client: new Client(''), id: '', key: '' };
    beforeAll(async () => {
      const fields = { email: eve.email, roles: ['operator'] };
      const added = await addMember(tenant.admin, tenant.id, fields);
      [eve.client, eve.id] = [added.client, added.user_id];
      await configure({ machines: true });
    });
    const disable = (): Promise<Answer> =>
      platform.patch(`/auth/users/${eve.id}`, { status: 'disabled' });
    const endSession = async (): Promise<Answer> => eve.client.post('/auth/logout', {});
    const revokeKey = (): Promise<Answer> => eve.client.delete(`/auth/api-keys/${eve.key}`);
    const byKey = async (): Promise<Client> => {
      const made = await eve.client.post('/auth/api-key', { name: 'ci', scopes: everything });
      eve.key = made.body.key_id ?? made.body.id;
      return new Client(strata.url, made.body.api_key);
    };
    const bySession = async (): Promise<Client> => eve.client;

    test.each([
      ['a key that is revoked', byKey, revokeKey, '401 auth_api_key_invalid'],
      ['a session that is ended', bySession, endSession, '401 auth_session_revoked'],
      [
        'the session of an account that is disabled',
        bySession,
        disable,
        '401 auth_session_revoked',
      ],
      ['the key of an account that is disabled', byKey, disable, '401 auth_api_key_invalid'],
      ['the link of an account that is disabled', undefined, disable, '403 insufficient_role'],
    ])('%s decides nothing', async (_what, clientOf, end, expected) => {
      const row = 'SELECT id FROM notifier.approvals WHERE id = $1 FOR UPDATE';
      expect(await decidedBehind(row, (id) => id, clientOf, end)).toBe(expected);
    });

    test('a key that is revoked while the decision is being written decides nothing', async () => {
      const counter = 'SELECT FROM strata.revisions WHERE scope = $1 FOR UPDATE';
      const scope = (): string => `approvals:${tenant.id}`;
      const answer = await decidedBehind(counter, scope, byKey, revokeKey);
      expect(answer).toBe('401 auth_api_key_invalid');
    });

    /** How a decision ends that waits for a lock, while an account or a credential ends. */
    async function decidedBehind(
      locked: string,
      lockedBy: (approvalId: string) => string,
      clientOf: (() => Promise<Client>) | undefined,
      end: () => Promise<Answer>,
    ): Promise<string> {
      await platform.patch(`/auth/users/${eve.id}`, { status: 'active' });
      eve.client = await signIn(strata.url, eve.email, memberPassword);
      const { id } = await ask('ada', 'none');
      const client = await clientOf?.();
      const lock = await holdLock(database, locked, [lockedBy(id)]);
      const deciding = client ? decide(client, id) : follow(eve.email, id);
      await lock.untilWaiting(1);
      expect((await end()).status).toBeLessThan(300);
      await lock.release();
      const { status, body } = await deciding;
      expect((await tenant.admin.get(path(`/approvals/${id}`))).body.state).toBe('pending');
      return `${status} ${body.detail?.code}`;
    }
  });

  test('a right that is given or taken while somebody decides is the one of the moment', async () => {
    await configure(undefined);
    const { id } = await ask('ada', 'sre');
    await tenant.admin.patch(path(`/users/${ids.bob}`), { groups: [] });
    expect((await decide(people.bob!, id)).body.detail.code).toBe('insufficient_role');
    await tenant.admin.patch(path(`/users/${ids.bob}`), { groups: ['sre'] });
    // Who may decide was settled when it was asked for: what is given again counts for later ones.
    expect((await decide(people.bob!, id)).body.detail.code).toBe('insufficient_role');
    await grow();
    expect((await decide(people.bob!, id)).status).toBe(200);
  });

  test('a write of the configuration, however long it takes, holds up no one who decides', async () => {
    await configure(undefined);
    const { id } = await ask('ada', 'sre');
    const lock = await holdLock(database, `SELECT ${lockExpression('$1::text')}`, [
      `strata scope ${tenantScope(tenant.id)}`,
    ]);
    const decided = await decide(people.bob!, id);
    await lock.release();
    expect(decided.body.state).toBe('approved');
  });

  test('the effective configuration shows the whole policy, PATCH changes a part of it', async () => {
    await configure({ required: { critical: 2 }, machines: true });
    await tenant.admin.patch(path('/config/notifications'), {
      approval_policy: { required: { high: 3 }, machines: null },
    });
    const { body } = await tenant.admin.get(path('/config/notifications/effective'));
    expect(body.approval_policy).toEqual({
      required: { low: 1, medium: 1, high: 3, critical: 2 },
      allow_self: false,
      machines: false,
    });
  });

  test('the policy is the one of when it was asked for', async () => {
    await configure({ required: { critical: 2 } });
    const asked = await ask('ada', 'none', { risk_level: 'critical' });
    expect(asked.policy).toEqual({ required: 2, allow_self: false, machines: false });
    await configure({ required: { critical: 1 }, allow_self: true, machines: true });
    expect((await decide(people.ada!, asked.id)).body.detail.code).toBe('approval_own_request');
    expect((await decide(keys.bob!, asked.id)).body.detail.code).toBe('insufficient_scope');
    expect((await decide(people.bob!, asked.id)).body.state).toBe('pending');
    expect((await decide(people.carl!, asked.id)).body.state).toBe('approved');
  });

  describe('who asks cannot have redefined who decides', () => {
    const codeOf = (answer: Answer) => [answer.status, answer.body.detail?.code];

    test('a mailbox that the requester named within a day decides nothing, anybody else counts', async () => {
      await configure(undefined);
      const mailbox = 'mine@elsewhere.example';
      await people.dora!.patch(path('/config/notifications'), {
        email: { approval_recipients: [listed, mailbox] },
      });
      const [theirs, ofOthers] = [await askedBy(people.dora!, 'none'), await ask('ada', 'none')];
      expect(codeOf(await follow(mailbox, theirs.id))).toEqual([403, 'insufficient_role']);
      expect((await follow(listed, theirs.id)).status).toBe(200);
      expect((await follow(mailbox, ofOthers.id)).status).toBe(200);
    });

    test('groups that the requester took out within a day are asked all the same', async () => {
      await configure({ required: { low: 2 }, machines: false });
      await people.dora!.patch(path('/config/notifications'), {
        approver_groups: { action_overrides: { sre: ['others'] } },
        approval_policy: { required: { low: 1 }, machines: true },
      });
      const theirs = await askedBy(people.dora!, 'sre');
      expect(theirs).toMatchObject({ chain: ['sre'], policy: { required: 2, machines: false } });
      expect(await ask('ada', 'sre')).toMatchObject({ chain: ['others'], policy: { required: 1 } });
    });

    test('mailboxes are none of several people', async () => {
      await configure({ required: { low: 2 } });
      const { id } = await ask('bob', 'none');
      const refused = await follow(listed, id);
      expect(codeOf(refused)).toEqual([403, 'insufficient_role']);
      expect(refused.body.detail.message).toContain('people with accounts');
    });

    test('whoever the requester put into a group within a day is refused, and told why', async () => {
      await configure(undefined);
      await people.dora!.patch(path(`/users/${ids.carl}`), { groups: ['sre', 'others'] });
      const [theirs, ofOthers] = [await askedBy(people.dora!, 'sre'), await ask('ada', 'sre')];
      const refused = [403, 'approval_decider_added_by_requester'];
      expect(codeOf(await decide(people.carl!, theirs.id))).toEqual(refused);
      expect(codeOf(await follow(emails.carl!, theirs.id))).toEqual(refused);
      const { body: seen } = await people.carl!.get(path(`/approvals/${theirs.id}`));
      expect(seen.viewer).toMatchObject({ may_decide: false, code: refused[1] });
      expect(seen.viewer.why_not).toContain('less than 24 hours');
      const { body: seenByBob } = await people.bob!.get(path(`/approvals/${theirs.id}`));
      expect(seenByBob.viewer).toEqual({ may_decide: true, code: null, why_not: null });
      expect((await decide(people.bob!, theirs.id)).status).toBe(200);
      expect((await decide(people.carl!, ofOthers.id)).status).toBe(200);
      await people.dora!.patch(path(`/users/${ids.carl}`), { groups: ['others'] });
    });

    test('no one is added after it was asked for: no member, no recipient', async () => {
      await configure(undefined);
      const [ofGroup, ofNone] = [await ask('bob', 'sre'), await ask('bob', 'none')];
      await people.dora!.patch(path(`/users/${ids.carl}`), { groups: ['sre', 'others'] });
      const late = 'late@elsewhere.example';
      await people.dora!.patch(path('/config/notifications'), {
        email: { approval_recipients: [late] },
      });
      const refused = await decide(people.carl!, ofGroup.id);
      expect(codeOf(refused)).toEqual([403, 'insufficient_role']);
      expect(refused.body.detail.message).toContain('after this approval was asked for');
      expect(codeOf(await follow(late, ofNone.id))).toEqual([403, 'insufficient_role']);
      await people.dora!.patch(path(`/users/${ids.carl}`), { groups: ['others'] });
      await grow();
    });

    test('a mailbox does not come to decide because the groups were emptied after it was asked for', async () => {
      await configure(undefined);
      const { id } = await ask('ada', 'sre');
      for (const name of ['bob', 'vic'])
        await people.dora!.patch(path(`/users/${ids[name]}`), { groups: [] });
      expect(codeOf(await follow(listed, id))).toEqual([403, 'insufficient_role']);
      expect((await decide(people.dora!, id)).status).toBe(200);
      for (const name of ['bob', 'vic'])
        await people.dora!.patch(path(`/users/${ids[name]}`), { groups: ['sre'] });
      await grow();
    });

    test('nor by somebody who has been an administrator by their hand for less than a day', async () => {
      await configure(undefined);
      const fay = { email: 'fay@rights.example', roles: ['tenant_admin'] };
      const { client: theirs, user_id: idOfFay } = await addMember(people.dora!, tenant.id, fay);
      const gus = { email: 'gus@rights.example', roles: ['operator'] };
      const { client: added, user_id: idOfGus } = await addMember(theirs, tenant.id, gus);
      const mailbox = 'fays@elsewhere.example';
      await theirs.patch(path('/config/notifications'), {
        email: { approval_recipients: [listed, mailbox] },
      });
      const refused = [403, 'approval_decider_added_by_requester'];
      const [ofDora, ofAda] = [await askedBy(people.dora!, 'none'), await ask('ada', 'none')];
      expect(codeOf(await decide(theirs, ofDora.id))).toEqual(refused);
      expect(codeOf(await decide(added, ofDora.id))).toEqual(refused);
      expect(codeOf(await follow(mailbox, ofDora.id))).toEqual([403, 'insufficient_role']);
      expect((await decide(added, ofAda.id)).status).toBe(200);
      for (const id of [idOfFay, idOfGus]) await people.dora!.delete(path(`/users/${id}`));
      // That they are members no more makes their changes nobody's.
      const later = await askedBy(people.dora!, 'none');
      expect(codeOf(await follow(mailbox, later.id))).toEqual([403, 'insufficient_role']);
    });

    test('nor by a key that such an administrator made for a service account of before', async () => {
      await configure({ machines: true });
      const hal = { email: 'hal@rights.example', roles: ['tenant_admin'] };
      const { client: theirs, user_id: idOfHal } = await addMember(people.dora!, tenant.id, hal);
      const ofReviewer = path(`/service-accounts/${ids.review}/api-keys`);
      const key = await keyOf(theirs, ofReviewer, everything);
      const [ofDora, ofAda] = [await askedBy(people.dora!, 'none'), await ask('ada', 'none')];
      const refused = [403, 'approval_decider_added_by_requester'];
      expect(codeOf(await decide(key, ofDora.id))).toEqual(refused);
      expect((await decide(key, ofAda.id)).status).toBe(200);
      // That its maker has lost the right, or left, does not hide by whose hand they had it.
      await people.dora!.patch(path(`/users/${idOfHal}`), { roles: ['viewer'] });
      expect(codeOf(await decide(key, ofDora.id))).toEqual(refused);
      await people.dora!.delete(path(`/users/${idOfHal}`));
      expect(codeOf(await decide(key, ofDora.id))).toEqual(refused);
      const later = await askedBy(people.dora!, 'none');
      expect(codeOf(await decide(key, later.id))).toEqual(refused);
    });

    test('nor by a service account that is removed before anything is asked', async () => {
      await configure(undefined);
      const account = await people.dora!.post(path('/service-accounts'), {
        name: 'mule',
        roles: ['tenant_admin'],
      });
      const keysAt = path(`/service-accounts/${account.body.id}/api-keys`);
      const mule = await keyOf(people.dora!, keysAt, ['approvals:configure']);
      const mailbox = 'mules@elsewhere.example';
      const changed = await mule.patch(path('/config/notifications'), {
        email: { approval_recipients: [listed, mailbox] },
      });
      expect(changed.status).toBe(200);
      await people.dora!.delete(path(`/service-accounts/${account.body.id}`));
      const [ofDora, ofAda] = [await askedBy(people.dora!, 'none'), await ask('ada', 'none')];
      expect(codeOf(await follow(mailbox, ofDora.id))).toEqual([403, 'insufficient_role']);
      expect((await follow(listed, ofDora.id)).status).toBe(200);
      expect((await follow(mailbox, ofAda.id)).status).toBe(200);
    });

    test('nor by what such a key gives once its maker has left', async () => {
      await configure(undefined);
      const elder = { name: 'elder', roles: ['tenant_admin'] };
      const { body: account } = await people.ada!.post(path('/service-accounts'), elder);
      await grow();
      const ivy = { email: 'ivy@rights.example', roles: ['tenant_admin'] };
      const { client: theirs, user_id: idOfIvy } = await addMember(people.dora!, tenant.id, ivy);
      const keysAt = path(`/service-accounts/${account.id}/api-keys`);
      const key = await keyOf(theirs, keysAt, ['approvals:configure']);
      await people.dora!.delete(path(`/users/${idOfIvy}`));
      const mailbox = 'ivys@elsewhere.example';
      const change = { email: { approval_recipients: [listed, mailbox] } };
      expect((await key.patch(path('/config/notifications'), change)).status).toBe(200);
      const { id } = await askedBy(people.dora!, 'none');
      expect(codeOf(await follow(mailbox, id))).toEqual([403, 'insufficient_role']);
      expect((await follow(listed, id)).status).toBe(200);
    });

    test('nor by a change set that their key wrote and they made an emergency', async () => {
      await configure(undefined);
      const scribe = { name: 'scribe', roles: ['tenant_admin'] };
      const { body: account } = await people.ada!.post(path('/service-accounts'), scribe);
      await grow();
      const keysAt = path(`/service-accounts/${account.id}/api-keys`);
      const key = await keyOf(people.dora!, keysAt, ['approvals:configure', 'config:write']);
      const mailbox = 'scribes@elsewhere.example';
      const body = { email: { approval_recipients: [listed, mailbox] } };
      const items = [{ action: 'patch', path: path('/config/notifications'), body }];
      const sets = path('/config/changesets');
      const { body: set } = await key.post(sets, { title: 'T', reason: 'R', items });
      const emergency = { reason: 'nobody else is awake now' };
      const applied = await people.dora!.post(`${sets}/${set.id}/break-glass`, emergency);
      expect([applied.status, applied.body.state]).toEqual([200, 'applied']);
      const [ofDora, ofBob] = [await askedBy(people.dora!, 'none'), await ask('bob', 'none')];
      expect(codeOf(await follow(mailbox, ofDora.id))).toEqual([403, 'insufficient_role']);
      expect((await follow(mailbox, ofBob.id)).status).toBe(200);
      expect((await people.ada!.post(`${sets}/${set.id}/review`)).status).toBe(200);
    });

    async function askedBy(client: Client, action: string) {
      const made = await client.post(path('/approvals'), { action, risk_level: 'low', title: 'T' });
      expect([made.status, made.text]).toEqual([202, expect.any(String)]);
      return made.body;
    }
  });

  describe('as many as the policy wants', () => {
    beforeAll(() => configure({ required: { critical: 3, high: 2 }, machines: true }));

    test('each once, however they come: so many approve, and no one after them', async () => {
      const { id } = await ask('deploy/ada', 'none', { risk_level: 'critical' });
      const lock = await holdLock(
        database,
        'SELECT id FROM notifier.approvals WHERE id = $1 FOR UPDATE',
        [id],
      );
      // Bob comes by three ways, Carl twice, Dora by herself and by a key that she made.
      const coming = [
        decide(people.bob!, id),
        decide(keys.bob!, id),
        follow(emails.bob!, id),
        decide(people.carl!, id),
        decide(people.carl!, id),
        decide(people.dora!, id),
        decide(keys['review/dora']!, id),
      ];
      await lock.untilWaiting(coming.length);
      await lock.release();
      const answers = await Promise.all(coming);
      const taken = answers.map(({ status }) => status).sort();
      expect(taken).toEqual([200, 200, 200, 409, 409, 409, 409]);
      const { body } = await people.ada!.get(path(`/approvals/${id}`));
      expect(body.state).toBe('approved');
      expect(body.approved_by).toHaveLength(3);
      const approvers = body.approved_by.map(({ by }: { by: string }) => by);
      expect(approvers).toEqual(expect.arrayContaining([ids.bob, ids.carl]));
      expect(approvers.filter((by: string) => by === ids.dora || by === ids.review)).toHaveLength(
        1,
      );
    });

    test('whoever has approved and lost the right since does not count', async () => {
      const guest = { email: 'guest@rights.example', roles: ['reviewer'] };
      const { client, user_id: guestId } = await addMember(tenant.admin, tenant.id, guest);
      await grow();
      const asked = await ask('ada', 'none', { risk_level: 'high' });
      expect((await decide(client, asked.id)).body.approved_by).toMatchObject([{ by: guestId }]);
      await tenant.admin.delete(path(`/users/${guestId}`));
      const second = await decide(people.bob!, asked.id);
      expect(second.body).toMatchObject({ state: 'pending', approved_by: [{ by: ids.bob }] });
      expect((await decide(people.carl!, asked.id)).body.state).toBe('approved');
    });

    test('an approval by a key that was revoked since does not count', async () => {
      const person = await people.bob!.post('/auth/api-key', { name: 'own', scopes: everything });
      const keysAt = path(`/service-accounts/${ids.review}/api-keys`);
      const machine = await people.dora!.post(keysAt, { name: 'review', scopes: everything });
      const made: [owner: Client, at: string, id: string, by: string][] = [
        [people.bob!, '/auth/api-keys', person.body.id, ids.bob!],
        [people.ada!, keysAt, machine.body.id, ids.review!],
      ];
      const keyTexts = [person.body.api_key, machine.body.api_key];
      for (const [index, [owner, at, id, by]] of made.entries()) {
        const asked = await ask('ada', 'none', { risk_level: 'high' });
        const first = await decide(new Client(strata.url, keyTexts[index]), asked.id);
        expect(first.body).toMatchObject({ state: 'pending', approved_by: [{ by }] });
        expect((await owner.delete(`${at}/${id}`)).status).toBe(204);
        const second = await decide(people.carl!, asked.id);
        const carl = { by: ids.carl };
        expect(second.body).toMatchObject({ state: 'pending', approved_by: [carl] });
        expect((await decide(people.dora!, asked.id)).body.state).toBe('approved');
      }
    });

    test('whoever approved by a key that was revoked since approves in person, once', async () => {
      const key = await people.bob!.post('/auth/api-key', { name: 'lost', scopes: everything });
      const { id } = await ask('ada', 'none', { risk_level: 'high' });
      const shown = async () =>
        (await new Client(strata.url).get(`/approvals/decision?token=${linkOf(emails.bob!, id)}`))
          .body;
      const first = await decide(new Client(strata.url, key.body.api_key), id);
      expect(first.body.what_happens.approve).toContain('if those before still count');
      expect((await decide(people.bob!, id)).status).toBe(409);
      expect(await shown()).toMatchObject({ has_approved: true, approved_by: [{}] });
      expect((await people.bob!.delete(`/auth/api-keys/${key.body.id}`)).status).toBe(204);
      expect(await shown()).toMatchObject({ has_approved: false, approved_by: [] });
      const again = await decide(people.bob!, id);
      const bob = { by: ids.bob, api_key: null };
      expect(again.body).toMatchObject({ state: 'pending', approved_by: [bob] });
      expect((await decide(people.bob!, id)).status).toBe(409);
      expect((await decide(people.carl!, id)).body.state).toBe('approved');
    });

    test('whoever approved where the groups had no one still counts once it has escalated', async () => {
      await grow();
      const { id } = await ask('deploy/ada', 'unled', { risk_level: 'high' });
      expect((await decide(people.dora!, id)).body).toMatchObject({
        approved_by: [{ by: ids.dora, right: 'groups_without_members' }],
      });
      await database.query('UPDATE notifier.approvals SET hop = 1 WHERE id = $1', [id]);
      expect((await decide(people.bob!, id)).body).toMatchObject({
        state: 'approved',
        approved_by: [{ by: ids.dora }, { by: ids.bob }],
      });
    });

    test('it shows who has approved so far; a denial by one ends it, also by one who approved', async () => {
      const { id } = await ask('ada', 'none', { risk_level: 'high' });
      const first = await decide(people.bob!, id);
      expect(first.body).toMatchObject({
        state: 'pending',
        decision: null,
        policy: { required: 2 },
        approved_by: [{ by: ids.bob, name: emails.bob, via: 'api', right: 'role', api_key: null }],
      });
      const again = await decide(people.bob!, id);
      expect([again.status, again.body.detail.code]).toEqual([409, 'conflict']);
      const denied = await decide(people.bob!, id, 'deny');
      expect(denied.body).toMatchObject({ state: 'denied', decision: { by: ids.bob } });
      expect((await decide(people.carl!, id)).status).toBe(409);
    });
  });

  describe('who asked is named', () => {
    test.each([
      ['ada', () => ({ type: 'user', id: ids.ada, name: emails.ada, api_key: null })],
      [
        "bob's key",
        () => ({
          type: 'user',
          id: ids.bob,
          name: emails.bob,
          api_key: { id: expect.any(String), name: 'ci' },
        }),
      ],
      [
        'deploy/ada',
        () => ({
          type: 'service',
          id: ids.deploy,
          name: 'deploy',
          api_key: { id: expect.any(String), name: 'ci' },
        }),
      ],
    ])('%s', async (asker, expected) => {
      const { requested_by: by } = await ask(asker, 'none');
      expect(by).toEqual(expected());
    });
  });

  test('the audit proves a decision: who asked, who decided by which means and right, and how many had to', async () => {
    await configure({ required: { critical: 2 }, machines: true });
    const { id } = await ask('deploy/ada', 'ghosts', { risk_level: 'critical' });
    expect((await decide(people.dora!, id)).status).toBe(200);
    // An address without an account is one mailbox, and whose it is nobody knows.
    expect((await follow(listed, id)).status).toBe(403);
    const gil = { email: 'gil@rights.example', roles: ['tenant_admin'] };
    const { user_id: idOfGil } = await addMember(tenant.admin, tenant.id, gil);
    // Whoever became one after it was asked for would not count.
    expect((await follow(gil.email, id)).status).toBe(403);
    await grow();
    expect((await follow(gil.email, id)).status).toBe(200);
    const events = await eventually(async () => {
      const { body } = await tenant.admin.get(
        `/audit/events?tenant_id=${tenant.id}&limit=200&order=desc`,
      );
      const found = body.items.filter(({ target }: AuditEvent) => target === id).toReversed();
      if (found.length < 3) throw new Error(`${found.length} events`);
      return found;
    });
    const policy = { required: 2, allow_self: false, machines: true };
    const asked = { type: 'service', id: ids.deploy, name: 'deploy', api_key: { name: 'ci' } };
    const byDora = { type: 'user', id: ids.dora, name: emails.dora };
    const byLink = { type: 'user', id: idOfGil, name: gil.email };
    expect(events).toMatchObject([
      {
        action: 'approval.requested',
        actor: { type: 'service', id: ids.deploy },
        payload: { requested_by: asked, policy, chain: ['ghosts'] },
      },
      {
        action: 'approval.partly_approved',
        actor: { type: 'user', id: ids.dora },
        payload: {
          requested_by: asked,
          decided_by: byDora,
          approved_by: [byDora],
          via: 'api',
          right: 'groups_without_members',
          groups: ['ghosts'],
          policy,
        },
      },
      {
        action: 'approval.approved',
        actor: { type: 'user', id: idOfGil },
        payload: {
          decided_by: byLink,
          approved_by: [byDora, byLink],
          via: 'link',
          right: 'groups_without_members',
          policy,
        },
      },
    ]);
  });

  const longAgo = '2020-01-01T00:00:00Z';
  test('a write that names a group in which no one may decide warns of it', async () => {
    const groups = { action_overrides: { one: ['sre', 'ghosts'], two: ['watchers'] } };
    const answer = await tenant.admin.put(path('/config/notifications'), {
      approver_groups: groups,
    });
    const inOverrides = '/approver_groups/action_overrides';
    expect([answer.status, answer.headers.get('x-config-warnings')]).toEqual([
      200,
      `${inOverrides}/one/1, ${inOverrides}/two/0`,
    ]);
    const staffed = { approver_groups: { risk_levels: { low: ['sre'] } } };
    const sure = await tenant.admin.put(path('/config/notifications'), staffed);
    expect(sure.headers.get('x-config-warnings')).toBeNull();
  });

  test('an approval whose groups have no one who could decide is counted, for the alert', async () => {
    await configure(undefined);
    const counted = () => metricOf(platform, 'strata_approvals_without_deciders_total');
    const before = await counted();
    for (const chain of ['sre', 'none'] as const) await ask('bob', chain);
    expect(await counted()).toBe(before);
    for (const chain of ['ghosts', 'watchers'] as const) await ask('bob', chain);
    const refused = { action: 'ghosts', risk_level: 'low', title: 'T', expires_at: longAgo };
    expect((await people.bob!.post(path('/approvals'), refused)).status).toBe(422);
    expect(await counted()).toBe(before + 2);
  });
});

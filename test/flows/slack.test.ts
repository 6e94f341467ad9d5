/**
 * Approvals in Slack: asked with buttons, decided by whom Slack vouches for and Strata gives the
 * right, and said in every copy. Being in the channel gives nothing.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { audited } from '../support/audit.ts';
import { eventually } from '../support/cluster.ts';
import { FakeSlack, slackTokens, type SlackPost } from '../support/fake-slack.ts';
import { grown } from '../support/grown.ts';
import { runPastedBeside } from '../support/pasted.ts';
import { strataDatabase, type Database } from '../support/postgres.ts';
import {
  adminPassword,
  createTenant,
  signIn,
  startStrata,
  type Answer,
  type Running,
  type TenantFixture,
} from '../support/strata.ts';

const channel = 'C0123456789';
const own = { app_token: slackTokens.app, bot_token: slackTokens.bot, channel };
let database: Database;
let slack: FakeSlack;
let strata: Running;
let tenant: TenantFixture;
let other: TenantFixture;

beforeAll(async () => {
  slack = await new FakeSlack().start();
  database = await strataDatabase();
  strata = await startStrata({ DATABASE_URL: database.url, SLACK_API_URL: slack.url });
  const platform = await signIn(strata.url, 'admin@example.com', adminPassword);
  tenant = await createTenant(strata.url, platform, 'Slack');
  other = await createTenant(strata.url, platform, 'Elsewhere');
  await configure({});
  await grown(database, tenant.id);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await slack?.stop();
  await database?.drop();
});
beforeEach(() => {
  slack.posts.clear();
  slack.whispers.length = 0;
  for (const [id, email] of [
    ['UADMIN', tenant.emails.tenant_admin!.toUpperCase()],
    ['UOPERATOR', tenant.emails.operator],
    ['UVIEWER', tenant.emails.viewer],
    ['UOTHER', other.emails.operator],
  ] as const)
    slack.people.set(id, { id, email: email! });
});

const path = (rest: string): string => `/tenants/${tenant.id}${rest}`;
const put = (more: object, required = 1): Promise<Answer> =>
  tenant.admin.put(path('/config/notifications'), {
    slack: own,
    approval_policy: { required: { low: 1, high: required } },
    ...more,
  });
/** Resolves once clicks are heard by this configuration. */
async function configure(more: object, required = 1): Promise<void> {
  const earlier = new Set(slack.sockets);
  const { status, text } = await put(more, required);
  expect([status, text]).toEqual([200, expect.any(String)]);
  await eventually(async () =>
    expect([...slack.sockets].filter((each) => !earlier.has(each))).toHaveLength(1),
  );
}

/** Asked by the operator, or whom else; resolves once it is in the channel. */
async function ask(
  fields: object = {},
  by = tenant.operator,
): Promise<{ readonly id: string; readonly post: SlackPost }> {
  const title = `Scale ${Math.random()}`;
  const body = { action: 'scale', risk_level: 'low', title, ...fields };
  const made = await by.post(path('/approvals'), body);
  expect([made.status, made.text]).toEqual([202, expect.any(String)]);
  const post = await eventually(async () => {
    const found = [...slack.posts.values()].find(({ blocks }) => blocks.includes(made.body.id));
    if (!found) throw new Error('it was not posted');
    return found;
  });
  return { id: made.body.id, post };
}
const stateOf = async (id: string): Promise<Answer['body']> =>
  (await tenant.admin.get(path(`/approvals/${id}`))).body;
const whispered = (user: string): Promise<string> =>
  eventually(async () => {
    const found = slack.whispers.find((each) => each.user === user);
    if (!found) throw new Error('nothing was said');
    return found.text;
  });

test('a person with the right decides by a button, and every copy says how it ended', async () => {
  const { id, post } = await ask({ description: '<!channel> see <https://evil.example|this>' });
  expect(post.channel).toBe(channel);
  expect(post.text).not.toContain('<');
  expect(JSON.parse(post.blocks).map(({ type }: { type: string }) => type)).toContain('actions');
  expect(post.blocks).not.toContain('mrkdwn');
  await slack.click('UADMIN', post, 'strata_approve');
  expect(await whispered('UADMIN')).toBe('It is decided.');
  const { state, decision } = await stateOf(id);
  expect([state, decision.via]).toEqual(['approved', 'slack']);
  await eventually(async () => {
    const now = slack.posts.get(post.ts)!;
    expect(now.blocks).not.toContain('strata_approve');
    expect(now.text).toMatch(/^Approved/);
  });
  expect(slack.posts.size).toBe(1);
  const event = await audited(tenant.admin, 'approval.approved', ({ target }) => target === id);
  expect(event.actor).toMatchObject({ type: 'user' });
  // A second click, on a copy that somebody still sees.
  slack.whispers.length = 0;
  await slack.click('UVIEWER', post, 'strata_deny', id);
  expect(await whispered('UVIEWER')).toMatch('Nothing was decided');
});

test('deciding elsewhere ends the buttons, too', async () => {
  const { id, post } = await ask();
  await tenant.admin.post(path(`/approvals/${id}/decision`), { decision: 'deny' });
  await eventually(async () => expect(slack.posts.get(post.ts)!.text).toMatch(/^Denied/));
});

test('what is decided while the question is on its way ends its buttons, too', async () => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  slack.held.set('chat.postMessage', held);
  slack.calls.clear();
  const asked = { action: 'scale', risk_level: 'low', title: 'On its way' };
  const { body } = await tenant.operator.post(path('/approvals'), asked);
  await eventually(async () => expect(slack.calls.get('chat.postMessage')).toBe(1));
  await tenant.admin.post(path(`/approvals/${body.id}/decision`), { decision: 'deny' });
  await eventually(async () => {
    const claimed = await database.query(
      `SELECT FROM notifier.deliveries
       WHERE approval_id = $1 AND type = 'approval.decided' AND lease IS NOT NULL`,
      [body.id],
    );
    expect(claimed).toHaveLength(1);
  });
  release();
  slack.held.clear();
  const settled = async (): Promise<void> => {
    const { items } = (
      await tenant.admin.get(path(`/notifications/deliveries?approval_id=${body.id}`))
    ).body;
    expect(items.map(({ state }: { state: string }) => state)).toEqual(['delivered', 'delivered']);
  };
  await eventually(settled);
  expect([...slack.posts.values()].map(({ text }) => text)).toEqual([
    expect.stringMatching(/^Denied/),
  ]);
});

test('four eyes hold: not whoever asked, and not one person for two', async () => {
  await configure({}, 2);
  await grown(database, tenant.id);
  const { id, post } = await ask({ risk_level: 'high' });
  await slack.click('UOPERATOR', post, 'strata_approve');
  expect(await whispered('UOPERATOR')).toMatch(/^Nothing was decided: The requester/);
  await slack.click('UADMIN', post, 'strata_approve');
  expect(await whispered('UADMIN')).toBe('You have approved it. It takes 1 more.');
  slack.whispers.length = 0;
  await slack.click('UADMIN', post, 'strata_approve');
  expect(await whispered('UADMIN')).toMatch('You have approved it already');
  expect((await stateOf(id)).state).toBe('pending');
  await configure({});
});

test('no one decides by being in the channel, or by an address that is not proved to be theirs', async () => {
  const admin = tenant.emails.tenant_admin!;
  const { id, post } = await ask();
  const foreign = await other.operator.post(`/tenants/${other.id}/approvals`, {
    action: 'scale',
    risk_level: 'low',
    title: 'Theirs',
  });
  for (const [user, person] of [
    ['UVIEWER', {}],
    ['UOTHER', {}],
    ['UNOBODY', { email: 'nobody@else.example' }],
    ['UNAMELESS', { email: undefined }],
    ['UUNPROVED', { email: admin, isConfirmed: false }],
    ['USHARED', { email: admin, team: 'T0OTHER' }],
    ['UBOT', { email: admin, isBot: true }],
  ] as const) {
    const known = slack.people.get(user);
    slack.people.set(user, { ...known, id: user, ...person });
    await slack.click(user, post, 'strata_approve');
    expect(await whispered(user)).toMatch('Nothing was decided');
  }
  slack.whispers.length = 0;
  await slack.click('UADMIN', post, 'strata_approve', foreign.body.id);
  expect(await whispered('UADMIN')).toMatch('Nothing was decided');
  expect((await stateOf(id)).state).toBe('pending');
});

test('whoever asks does not say who clicks: not by Slack set up shortly before, nor afterwards', async () => {
  const second = { ...own, app_token: `${own.app_token}-2` };
  await configure({ slack: second });
  const early = await ask({}, tenant.admin);
  await slack.click('UOPERATOR', early.post, 'strata_approve');
  expect(await whispered('UOPERATOR')).toMatch(/^Nothing was decided: The requester set up/);
  await grown(database, tenant.id);
  const later = await ask({}, tenant.admin);
  await configure({ slack: { ...second, bot_token: `${own.bot_token}-2` } });
  await grown(database, tenant.id);
  slack.whispers.length = 0;
  await slack.click('UOPERATOR', later.post, 'strata_approve');
  expect(await whispered('UOPERATOR')).toMatch(
    /^Nothing was decided: The tokens of Slack were changed/,
  );
  expect((await stateOf(later.id)).state).toBe('pending');
  await configure({});
  await grown(database, tenant.id);
  slack.whispers.length = 0;
  await slack.click('UOPERATOR', later.post, 'strata_approve');
  expect(await whispered('UOPERATOR')).toMatch(
    /^Nothing was decided: The tokens of Slack were changed/,
  );
  await configure({ slack: second });
  await grown(database, tenant.id);
  slack.whispers.length = 0;
  await slack.click('UOPERATOR', later.post, 'strata_approve');
  expect(await whispered('UOPERATOR')).toBe('It is decided.');
});

test('a failure of Slack is sent again, one of the configuration is final, and no token is told', async () => {
  slack.failures.set('chat.postMessage', ['internal_error']);
  await ask();
  slack.failures.set('chat.postMessage', ['channel_not_found']);
  const tried = await tenant.admin.post(path('/notifications/test'), { channel: 'slack' });
  expect(tried.body.results).toMatchObject([
    { delivered: false, error: 'Slack answered channel_not_found' },
  ]);
  const shown = await tenant.admin.get(path('/config/notifications'));
  expect(shown.text).toContain(channel);
  expect(shown.text).not.toContain('of-the-');
  const refused = await put({
    slack: { app_token: 'a', bot_token: 'b', channel: 'general' },
  });
  expect([refused.status, refused.body.errors.length]).toEqual([422, expect.any(Number)]);
});

test('two clicks in a row are one', async () => {
  const { post } = await ask();
  await Promise.all(
    Array.from({ length: 5 }, () => slack.click('UVIEWER', post, 'strata_approve')),
  );
  await slack.click('UADMIN', post, 'strata_deny');
  await Promise.all(['UADMIN', 'UVIEWER'].map(whispered));
  expect(slack.whispers.filter(({ user }) => user === 'UVIEWER')).toHaveLength(1);
});

test('the example of the documentation runs as pasted', async () => {
  const output = await runPastedBeside('docs/operations/chat.md', 'Slack', {
    STRATA: strata.url,
    TOKEN: tenant.admin.token,
    TENANT: tenant.id,
    APP_TOKEN: slackTokens.app,
    BOT_TOKEN: slackTokens.bot,
    CHANNEL: channel,
  });
  expect(output).toEqual([channel, 'true']);
});

test('the socket is connected again when Slack ends it, and goes with the configuration', async () => {
  slack.failures.set('apps.connections.open', ['token_revoked', 'ratelimited']);
  for (const socket of slack.sockets) socket.close();
  await eventually(async () => expect(slack.sockets.size).toBe(0));
  await eventually(async () => expect(slack.sockets.size).toBe(1));
  await put({ slack: undefined });
  await eventually(async () => expect(slack.sockets.size).toBe(0));
});

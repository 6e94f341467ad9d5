/**
 * G2 for notices: two notifier nodes that are killed again and again while approvals are asked for,
 * escalated and decided. NOTIFIER_KILLS and NOTIFIER_APPROVALS make it longer, such as the 200 and
 * 1,000 of `npm run test:soak`.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually, killed, startCluster, type Cluster } from '../support/cluster.ts';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { Client, type Answer, type Running } from '../support/strata.ts';

const kills = Number(process.env.NOTIFIER_KILLS ?? 10);
const count = Number(process.env.NOTIFIER_APPROVALS ?? 100);
/**
 * How long anything may take, which on a busy machine is many times what it takes on a calm one.
 */
const patience = kills * 20_000 + count * 1000 + 300_000;
/** Longer than a test takes: windows pass where the tests let them. */
const windowMinutes = 60;
/**
 * A receiver refuses a notice no more often, so that each is taken before its retries are used up.
 */
const mostRefusals = 4;
let cluster: Cluster;
let admin: Client;
let receiver: Receiver;
const nodes: Running[] = [];
/** What the receiver does next. */
let answer: (n: number, response: ServerResponse) => void;
const start = (name: string): Promise<Running> =>
  eventually(() => cluster.start(name, ['notifier']), 120_000);

beforeAll(async () => {
  receiver = await startReceiver((n, response) => answer(n, response));
  cluster = await startCluster({
    gateways: 1,
    environment: {
      REQUEST_TIMEOUT_MS: '2500',
      WEBHOOK_ALLOW_HTTP: 'true',
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    },
  });
  nodes.push(...(await Promise.all(['notifier-1', 'notifier-2'].map(start))));
  admin = cluster.tenant.admin;
});
afterAll(async () => {
  await cluster?.stop();
  await receiver?.close();
});

const path = (rest = ''): string => `/tenants/${cluster.tenant.id}/approvals${rest}`;
const configure = (maxHops: number) =>
  eventually(async () => {
    const endpoints = ['a', 'b'].map((name) => ({
      url: `${receiver.url}&n=${name}`,
      secret: 's3cr3t',
      timeout_seconds: 5,
      retry_attempts: 10,
      backoff: { initial_seconds: 0.1, factor: 1, max_seconds: 0.1 },
    }));
    const saved = await admin.put(`/tenants/${cluster.tenant.id}/config/notifications`, {
      webhook: { endpoints },
      approver_groups: { risk_levels: { high: ['sre', 'leads'] } },
      escalation: { escalation_window_minutes: windowMinutes, max_hops: maxHops },
    });
    if (saved.status >= 300) throw new Error(saved.text);
  });
/** Repeats a request that no node answers, until one does. */
const insist = (work: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const given = await work();
    if (given.status >= 500) throw new Error(given.text);
    return given;
  }, patience);
/** Works off `items`, `width` at a time. */
async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
    }),
  );
}
const ask = async (key: string): Promise<string> => {
  const made = await insist(() =>
    cluster.tenant.operator.post(path(), {
      action: 'scale',
      risk_level: 'high',
      title: key,
      idempotency_key: key,
    }),
  );
  expect([made.status, made.text]).toEqual([202, expect.any(String)]);
  return made.body.id;
};
/** Lets a window pass for those that are not due yet. */
const letWindowPass = () =>
  cluster.database.query(
    `UPDATE notifier.approvals SET escalates_at = escalates_at - interval '${windowMinutes} minutes', expires_at = expires_at - interval '${windowMinutes} minutes'
   WHERE state = 'pending' AND escalates_at > now()`,
  );

interface ApprovalState {
  id: string;
  state: string;
  hop: number;
}
interface DeliveryState {
  id: string;
  approval_id: string;
  type: string;
  hop: number;
  place: string;
  state: string;
  attempts: number;
}
const approvalsOf = (title: string) =>
  cluster.database.query<ApprovalState>(
    'SELECT id, state, hop FROM notifier.approvals WHERE title LIKE $1',
    [`${title}%`],
  );
const deliveriesOf = (ids: readonly string[]) =>
  cluster.database.query<DeliveryState>(
    'SELECT id, approval_id, type, hop, place, state, attempts FROM notifier.deliveries WHERE approval_id = ANY($1)',
    [ids],
  );
const settledAll = (title: string) =>
  eventually(async () => {
    const approvals = await approvalsOf(title);
    // One whose last hop is due is refused to whoever decides, and fires a moment later.
    const open = approvals.filter(({ state }) => state === 'pending').length;
    if (open > 0) throw new Error(`${open} approvals of ${approvals.length} are still pending`);
    const deliveries = await deliveriesOf(approvals.map(({ id }) => id));
    const waiting = deliveries.filter(({ state }) => state === 'pending').length;
    if (waiting > 0)
      throw new Error(`${waiting} deliveries of ${deliveries.length} are still on their way`);
    return { approvals, deliveries };
  }, patience);

test('of a decision and the last hop of an approval one counts, with two nodes that fire hops', async () => {
  answer = (_n, response) => {
    response.writeHead(204).end();
  };
  await configure(0);
  const keys = Array.from({ length: 150 }, (_each, n) => `race-${n}`);
  const ids = new Map<string, string>();
  await inParallel(keys, 8, async (key) => {
    ids.set(key, await ask(key));
  });
  const decided = new Map<string, number>();
  const retried = new Set<string>();
  const decide = async (key: string): Promise<void> => {
    const id = ids.get(key)!;
    let tries = 0;
    const { status, body } = await insist(() => {
      tries += 1;
      return admin.post(path(`/${id}/decision`), { decision: 'approve' });
    });
    // 409 where the answer to the first try was lost.
    const isOwn = tries > 1 && status === 409 && body.detail.code === 'conflict';
    if (isOwn) retried.add(id);
    decided.set(id, status);
  };
  // Some come first for certain, on a machine that is too busy for the others, too.
  await inParallel(keys.slice(0, 10), 10, decide);
  const exhausted = receiver.wait(({ body }) => body.type === 'approval.exhausted');
  await letWindowPass();
  await exhausted;
  await inParallel(keys.slice(10), 16, decide);

  const { approvals, deliveries } = await settledAll('race-');
  expect(approvals).toHaveLength(keys.length);
  const wins = approvals.map(({ id, state }) => {
    const types = deliveries
      .filter(({ approval_id: of, place }) => of === id && place === '0')
      .map(({ type }) => type)
      .sort();
    const status = state === 'approved' && retried.has(id) ? 200 : decided.get(id);
    return `${state} ${status} ${types.join(' ')}`;
  });
  expect([...new Set(wins)].sort()).toEqual([
    'approved 200 approval.decided approval.requested',
    'exhausted 409 approval.exhausted approval.requested',
  ]);
});

test(
  `${kills} kills while ${count} approvals are on their way: each notice arrives, under one id; no hop twice, none left out, nothing stuck`,
  async () => {
    // Receivers are slow, fail and hang up after they have read.
    const refusals = new Map<string, number>();
    answer = (n, response) => {
      const id = response.req.headers['webhook-id'] as string;
      const refused = refusals.get(id) ?? 0;
      const isFailure = (n % 7 === 3 || n % 11 === 5) && refused < mostRefusals;
      if (isFailure) refusals.set(id, refused + 1);
      setTimeout(
        () => {
          if (!isFailure) response.writeHead(204).end();
          else if (n % 7 === 3) response.writeHead(503).end();
          else response.req.socket.destroy();
        },
        (n % 5) * 40,
      );
    };
    await configure(2);
    const before = receiver.received.length;
    const ended = new AbortController();
    let done = 0;
    const killers = nodes.map(async (_node, index) => {
      for (let n = 0; n < kills / 2; n += 1) {
        await delay(Math.random() * 3000);
        await killed(nodes[index]!);
        done += 1;
        nodes[index] = await start(`notifier-${index + 1}`);
      }
    });
    const passing = (async () => {
      while (!ended.signal.aborted) {
        await letWindowPass();
        await delay(800);
      }
    })();
    // Asked for all along, so that there is something in every state at each kill.
    const keys = Array.from({ length: count }, (_each, n) => `kill-${n}`);
    const asked = inParallel(keys, Math.max(2, Math.ceil(count / 40)), async (key) => {
      const id = await ask(key);
      await delay(Math.random() * kills * 50);
      if (Math.random() < 0.4)
        expect([200, 409]).toContain(
          (await insist(() => admin.post(path(`/${id}/decision`), { decision: 'deny' }))).status,
        );
    });
    await Promise.all([asked, ...killers]);
    expect(done).toBe(2 * Math.ceil(kills / 2));
    await eventually(async () => {
      const left = (await approvalsOf('kill-')).filter(({ state }) => state === 'pending').length;
      if (left > 0) throw new Error(`${left} approvals are still pending`);
    }, patience);
    ended.abort();
    await passing;

    const { approvals, deliveries } = await settledAll('kill-');
    expect(approvals).toHaveLength(count);
    const received = Map.groupBy(
      receiver.received.slice(before),
      ({ headers }) => headers['webhook-id'] as string,
    );
    const webhookId = (id: string): string => `ntf_${id.replaceAll('-', '')}`;
    const known = new Set(deliveries.map(({ id }) => webhookId(id)));
    const problems: string[] = [];
    for (const [id, all] of received) {
      if (new Set(all.map(({ text }) => text)).size > 1)
        problems.push(`${id} came with two bodies`);
      if (!known.has(id)) problems.push(`${id} is no delivery`);
    }
    const byApproval = Map.groupBy(deliveries, ({ approval_id: of }) => of);
    for (const { id, state, hop } of approvals) {
      for (const place of ['0', '1']) {
        const here = byApproval.get(id)!.filter((delivery) => delivery.place === place);
        const asking = here.filter(
          ({ type }) => type === 'approval.requested' || type === 'approval.escalated',
        );
        const hops = asking.map((delivery) => `${delivery.type} ${delivery.hop}`).sort();
        const due = Array.from({ length: hop + 1 }, (_each, n) =>
          n === 0 ? 'approval.requested 0' : `approval.escalated ${n}`,
        ).sort();
        if (hops.join() !== due.join())
          problems.push(`${id} ${state} at hop ${hop}: ${hops.join(', ')}`);
        const reached = asking.some((delivery) => received.has(webhookId(delivery.id)));
        const ends = here.filter(
          ({ type }) => type === 'approval.decided' || type === 'approval.exhausted',
        );
        if (ends.length !== 1 && (reached || state === 'exhausted' || ends.length > 1))
          problems.push(
            `${id} ${state}: the end was told ${ends.length} times, was asked: ${reached}`,
          );
        for (const delivery of here) {
          const cancelled = delivery.state === 'cancelled' && asking.includes(delivery);
          if (
            !cancelled &&
            !(delivery.state === 'delivered' && received.has(webhookId(delivery.id)))
          )
            problems.push(`${delivery.type} ${delivery.hop} of ${id} is ${delivery.state}`);
        }
      }
    }
    expect(problems).toEqual([]);

    // Audited once each, although its transaction may have been answered to nobody.
    await eventually(async () => {
      const [facts] = await cluster.database.query<{ events: number; hops: number }>(
        `SELECT (SELECT count(*) FROM audit.events WHERE action = 'approval.escalated' AND target = ANY($1::text[]))::int AS events,
         (SELECT sum(hop) FROM notifier.approvals WHERE id = ANY($1::uuid[]))::int AS hops`,
        [approvals.map(({ id }) => id)],
      );
      expect(facts!.events).toBe(facts!.hops);
    });
    const repeats = [...received.values()].reduce((sum, all) => sum + all.length - 1, 0);
    if (kills > 10)
      process.stdout.write(
        `${done} kills, ${approvals.length} approvals, ${deliveries.length} deliveries, ${received.size} received, ${repeats} repeats\n`,
      );
  },
  patience,
);

/**
 * Rollouts that continue by themselves, in a cluster whose gates answer as tests say. Time passes by
 * moving turns and stages back in the database.
 */
import type { ServerResponse } from 'node:http';
import { eventually, startCluster, type Cluster } from './cluster.ts';
import { startReceiver, type Receiver } from './receiver.ts';
import { createTenantWith, type Answer, type Client } from './strata.ts';

export let cluster: Cluster;
export let platform: Client;
export let other: { readonly id: string; readonly admin: Client };
const receivers: Receiver[] = [];
export const secret = 'canary-of-a-gate';

export const gateAt = async (
  answer: (n: number, response: ServerResponse) => void,
): Promise<Receiver> => {
  const receiver = await startReceiver(answer);
  receivers.push(receiver);
  return receiver;
};
export const says =
  (...results: readonly string[]) =>
  (n: number, response: ServerResponse): void => {
    const result = results[Math.min(n, results.length - 1)];
    response.writeHead(200).end(JSON.stringify({ result, detail: `asked ${n + 1} times` }));
  };

export async function startGated(
  environment: Readonly<Record<string, string>> = {},
  { once = false } = {},
): Promise<void> {
  cluster = await startCluster({
    gateways: 1,
    once,
    environment: {
      WEBHOOK_ALLOW_HTTP: 'true',
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
      RATE_LIMIT_PER_MINUTE: '0',
      ...environment,
    },
  });
  ({ platform } = cluster);
  await cluster.start('notifier-1', ['notifier']);
  other = await createTenantWith(platform.url, platform, 'Beta');
}
export async function stopGated(): Promise<void> {
  await cluster?.stop();
  await Promise.all(receivers.map(({ close }) => close()));
}

export const good = (answer: Answer): Answer => {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`);
  return answer;
};
let count = 0;
export const everybody = { percent: 100, bake_minutes: 0, gate: [{ type: 'manual' }] };
export type Gate = Readonly<Record<string, unknown>>;
export const first = (...gate: readonly Gate[]) => ({
  tenants: [cluster.tenant.id],
  bake_minutes: 0,
  gate,
});

export interface Started {
  readonly id: string;
  readonly key: string;
}
export async function planned(
  stages: readonly object[],
  more: object = {},
  by = platform,
): Promise<Started & { readonly answer: Answer }> {
  count += 1;
  const key = `gated-${count}`;
  good(await platform.put(`/config/global/${key}`, { config_value: 1, is_public: true }));
  const items = [
    { action: 'put', path: `/config/global/${key}`, body: { config_value: 2, is_public: true } },
  ];
  const { digest } = good(await platform.post('/config/plan', { items })).body;
  const body = { title: 'One', reason: 'It is time', items, digest, stages, ...more };
  const answer = await by.post('/config/rollouts', body);
  return { id: answer.body?.id, key, answer };
}
export async function begun(...of: Parameters<typeof planned>): Promise<Started> {
  const { id, key, answer } = await planned(...of);
  good(answer);
  good(await (of[2] ?? platform).post(`/config/rollouts/${id}/advance`, { stage: null }));
  return { id, key };
}
export const rollout = async (id: string): Promise<Answer['body']> =>
  good(await platform.get(`/config/rollouts/${id}`)).body;
/**
 * Lets the runner look at it with its next poll. A turn in which gates are asked has longer left, and
 * stays whose it is.
 */
export const lookSoon = (id: string): Promise<unknown> =>
  cluster.database.query(
    `UPDATE global_config.rollout_runs SET due_at = clock_timestamp()
     WHERE rollout_id = $1 AND due_at < clock_timestamp() + interval '15 seconds'`,
    [id],
  );
export const letMinutePass = (id: string): Promise<unknown> =>
  cluster.database.query(
    `UPDATE global_config.rollouts SET document = jsonb_set(document::jsonb, '{stage_at}', to_jsonb(
       to_char(((document->>'stage_at')::timestamptz - interval '1 minute') AT TIME ZONE 'UTC',
         'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
     WHERE id = $1 AND state = 'running'`,
    [id],
  );
export const until = (
  id: string,
  fits: (rollout: Answer['body']) => boolean,
): Promise<Answer['body']> =>
  eventually(async () => {
    await lookSoon(id);
    const found = await rollout(id);
    if (!fits(found)) throw new Error(JSON.stringify(found));
    return found;
  }, 120_000);
export const valueOf = async (
  tenant: { id: string; admin: Client },
  key: string,
): Promise<unknown> =>
  good(await tenant.admin.get(`/tenants/${tenant.id}/config/effective`)).body.values[key];
export const webhook = ({ url }: Receiver) => ({ type: 'webhook', url, secret });

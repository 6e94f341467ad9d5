/** How fast notices are delivered, and whether endpoints that never answer delay a healthy one. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startReceiver, type Receiver } from '../support/receiver.ts';
import { createTenant, type TenantFixture } from '../support/strata.ts';
import { loadCore, serverCore, startProgram } from './machine.ts';
import { alternate, type Comparison, type Group } from './report.ts';
import { platformAdmin, startStage, type Stage } from './stage.ts';

/**
 * What the receiver has counted, with the times of the first and the last arrival in milliseconds.
 */
interface Tally {
  readonly count: number;
  /** Notices whose signature is not right. */
  readonly wrong: number;
  readonly first: number;
  readonly last: number;
}

const secret = 'a secret of the bench';
/** What Strata allows itself for as many endpoints, and what got is given. */
const endpoints = 4;
const concurrency = 16 * endpoints;
export const reachable = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8' };
const ask = { action: 'scale', risk_level: 'high', title: 'Scale checkout to 6' } as const;

/** Saves a configuration with one webhook endpoint per URL. */
export async function configureEndpoints(
  tenant: TenantFixture,
  urls: readonly string[],
): Promise<void> {
  const saved = await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
    webhook: { endpoints: urls.map((url) => ({ url, secret })) },
  });
  if (saved.status >= 300) throw new Error(saved.text);
}
/** Asks for an approval; gives its id. */
async function askForApproval(tenant: TenantFixture): Promise<string> {
  const made = await tenant.admin.post(`/tenants/${tenant.id}/approvals`, ask);
  if (made.status !== 202) throw new Error(made.text);
  return made.body.id;
}

/**
 * Deliveries a second out of the queue, each claimed, signed, sent and recorded, beside got posting
 * the same bodies.
 */
async function throughput(stage: Stage, rounds: number, seconds: number): Promise<Comparison> {
  const node = await stage.start([], serverCore, { ...stage.alone, ...reachable });
  const receiver = await startProgram('test/bench/peers/receiver.ts', [secret], loadCore);
  const folder = mkdtempSync(join(tmpdir(), 'strata-bench-'));
  const count = 1000 * Math.ceil(seconds);
  /** What the receiver has counted; at /reset it begins again afterwards. */
  const tally = async (path = '/'): Promise<Tally> => {
    const response = await fetch(receiver.said + path);
    return (await response.json()) as Tally;
  };
  /** Deliveries a second, once all have arrived. */
  const arrivedPerSecond = async (): Promise<number> => {
    for (;;) {
      const seen = await tally();
      if (seen.wrong > 0)
        throw new Error(`${seen.wrong} notices were not signed as they should be`);
      if (seen.count >= count) {
        await tally('/reset');
        return ((seen.count - 1) * 1000) / (seen.last - seen.first);
      }
      await delay(20);
    }
  };
  try {
    const tenant = await createTenant(node.url, await platformAdmin(node.url), 'Bench');
    await configureEndpoints(
      tenant,
      Array.from({ length: endpoints }, (_, index) => `${receiver.said}/${index}`),
    );
    await askForApproval(tenant);
    while ((await tally()).count < endpoints) await delay(20);
    await tally('/reset');
    const [first] = await stage.database.query<{ body: string }>(
      'SELECT body FROM notifier.deliveries LIMIT 1',
    );
    const file = join(folder, 'body.json');
    writeFileSync(file, first!.body);

    const strata = async (): Promise<number> => {
      await stage.database.query(
        `INSERT INTO notifier.deliveries (id, tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, state, attempts, round, next_attempt_at, created_at)
         SELECT gen_random_uuid(), tenant_id, approval_id, type, hop, channel, endpoint_key, place, target, body, 'pending', 0, 0, now(), now()
         FROM (SELECT * FROM notifier.deliveries ORDER BY created_at LIMIT ${endpoints}) d, generate_series(1, ${count / endpoints})`,
      );
      return arrivedPerSecond();
    };
    const got = async (): Promise<number> => {
      const program = await startProgram(
        'test/bench/peers/got-posts.ts',
        [receiver.said, file, String(count), String(concurrency), secret],
        serverCore,
      );
      await program.stop();
      return arrivedPerSecond();
    };
    return {
      what: `webhook deliveries, ${endpoints} endpoints`,
      peer: `got posting the same signed bodies, ${concurrency} at a time, nothing stored`,
      unit: '/s',
      goal: { atLeast: 0.5 },
      ...(await alternate(rounds, strata, got)),
    };
  } finally {
    await receiver.stop();
    await node.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The 99th percentile of the time from asking for an approval to its arrival, in milliseconds. */
export async function noticeTimes(
  tenant: TenantFixture,
  receiver: Receiver,
  seconds: number,
): Promise<number> {
  const took: number[] = [];
  for (let each = 0; each < 50 * seconds; each += 1) {
    const began = performance.now();
    const id = await askForApproval(tenant);
    const [arrived] = await receiver.wait(({ body }) => body.data.approval_id === id);
    took.push(arrived!.at - began);
  }
  receiver.received.splice(0);
  return took.sort((a, b) => a - b)[Math.ceil(took.length * 0.99) - 1]!;
}

/**
 * What an approval takes to arrive at a healthy endpoint (see noticeTimes), where fifty others never answer, beside the same without them.
 */
async function isolation(stage: Stage, rounds: number, seconds: number): Promise<Comparison> {
  let hanging = 0;
  const hung = createServer(() => {
    hanging += 1;
  });
  hung.listen(0, '127.0.0.1');
  await once(hung, 'listening');
  const { port } = hung.address() as AddressInfo;
  const receiver = await startReceiver();
  const side = async (name: string, environment: Record<string, string>, hungEndpoints: number) => {
    const node = await stage.start([], serverCore, { ...environment, ...reachable });
    const platform = await platformAdmin(node.url);
    const healthy = await createTenant(node.url, platform, `Healthy ${name}`);
    await configureEndpoints(healthy, [receiver.url]);
    const others: TenantFixture[] = [];
    for (let each = 0; each < hungEndpoints; each += 10) {
      const other = await createTenant(node.url, platform, `Hung ${name} ${each}`);
      await configureEndpoints(
        other,
        Array.from({ length: 10 }, (_, index) => `http://127.0.0.1:${port}/${each + index}`),
      );
      others.push(other);
    }
    return { node, healthy, others };
  };
  const p99 = async ({ healthy, others }: Awaited<ReturnType<typeof side>>): Promise<number> => {
    // Measured beside endpoints that hang, not beside the start of so many sends.
    const before = hanging;
    await Promise.all(others.map(askForApproval));
    while (hanging < before + 10 * others.length) await delay(10);
    return noticeTimes(healthy, receiver, seconds);
  };
  try {
    const quiet = await side(
      'alone',
      { ...stage.alone, DATABASE_URL: (await stage.anotherDatabase()).url },
      0,
    );
    const beside = await side(
      'beside',
      { ...stage.alone, DATABASE_URL: (await stage.anotherDatabase()).url },
      50,
    );
    return {
      what: "a healthy endpoint's p99 with 50 hung ones",
      peer: 'without them',
      unit: 'ms',
      goal: { atMost: 1.2 },
      ...(await alternate(
        rounds,
        () => p99(beside),
        () => p99(quiet),
      )),
    };
  } finally {
    await receiver.close();
    hung.closeAllConnections();
    hung.close();
  }
}

export const webhooks: Group = async ({ rounds, seconds }) => {
  const stage = await startStage();
  try {
    return {
      rows: [await throughput(stage, rounds, seconds), await isolation(stage, rounds, seconds)],
    };
  } finally {
    await stage.stop();
  }
};

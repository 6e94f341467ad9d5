/** Fifty endpoints that hang, of several tenants, and healthy ones beside them. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../support/cluster.ts';
import { startReceiver, type Receiver } from '../../support/receiver.ts';
import { createTenantWith, type TenantWith } from '../../support/strata.ts';
import { database, platform, strata } from './strata.ts';

describe('notices', () => {
  const hangMs = 300_000;
  let hung: Receiver;
  let healthy: Receiver;
  const tenants: TenantWith<never>[] = [];

  beforeAll(async () => {
    hung = await startReceiver(() => {});
    healthy = await startReceiver();
    for (const name of ['Hung one', 'Hung two', 'Mixed', 'Healthy'])
      tenants.push(await createTenantWith(strata.url, platform, name));
  });
  afterAll(async () => {
    // What hangs would be waited for.
    await strata.stop('SIGKILL');
    await Promise.all([hung?.close(), healthy?.close()]);
  });

  const configure = async (tenant: TenantWith<never>, urls: readonly string[]): Promise<void> => {
    const endpoints = urls.map((url) => ({ url, timeout_seconds: hangMs / 1000 }));
    expect(
      (
        await tenant.admin.put(`/tenants/${tenant.id}/config/notifications`, {
          webhook: { endpoints },
        })
      ).status,
    ).toBe(200);
  };
  const ask = async ({ id, admin }: TenantWith<never>): Promise<string> => {
    const made = await admin.post(`/tenants/${id}/approvals`, {
      action: 'scale',
      risk_level: 'low',
      title: 'Scale up',
    });
    expect([made.status, made.text]).toEqual([202, expect.any(String)]);
    return made.body.id;
  };

  test('fifty hung endpoints with more notices than there are slots do not delay a healthy one', async () => {
    const [one, two, mixed, well] = tenants as [
      TenantWith<never>,
      TenantWith<never>,
      TenantWith<never>,
      TenantWith<never>,
    ];
    const hungUrls = (count: number): string[] =>
      Array.from({ length: count }, (_each, n) => `${hung.url}&n=${n}`);
    await configure(one, hungUrls(20));
    await configure(two, hungUrls(20));
    await configure(mixed, [...hungUrls(10), healthy.url]);
    await configure(well, [healthy.url]);
    for (let n = 0; n < 25; n += 1) await Promise.all([one, two, mixed].map(ask));
    await hung.wait(() => true, 50 * 16);
    await healthy.wait(() => true, 25);

    for (const tenant of [mixed, well, mixed, well]) {
      const asked = performance.now();
      const id = await ask(tenant);
      const [arrived] = await healthy.wait(({ body }) => body.data.approval_id === id);
      // Whoever waits for a hung one waits for its time-out.
      expect(arrived!.at - asked).toBeLessThan(hangMs / 10);
    }
    // A healthy one that has answered is noted a moment later.
    await eventually(async () => {
      const [waiting] = await database.query<{ sent: number; all: number }>(
        `SELECT count(*) FILTER (WHERE lease IS NOT NULL)::int AS sent, count(*)::int AS all FROM notifier.deliveries WHERE state = 'pending'`,
      );
      expect(waiting!.all).toBeGreaterThan(1024);
      expect(waiting!.sent).toBe(50 * 16);
    });
  });
});

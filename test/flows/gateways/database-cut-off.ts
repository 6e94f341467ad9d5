/** A service that its database does not answer, beside one that does, is asked for nothing. */
import { expect, test } from '@jest/globals';
import { eventually } from '../../support/cluster.ts';
import { startProxy } from '../../support/proxy.ts';
import { createTenantWith } from '../../support/strata.ts';
import { cluster } from './cluster.ts';

/** The pg client's default. */
const postgresPort = 5432;
const calls = 20;

test('a node cut off from PostgreSQL alone costs no write, and no read', async () => {
  const { platform, environment } = cluster;
  const address = new URL(environment.DATABASE_URL!);
  const proxy = await startProxy(Number(address.port || postgresPort));
  address.port = String(proxy.port);
  const node = await cluster.start('config-cut-off', ['tenant-config', 'global-config'], {
    DATABASE_URL: address.href,
    REQUEST_TIMEOUT_MS: '2000',
  });
  try {
    const { id, admin } = await createTenantWith(platform.url, platform, 'Beside');
    const statuses = async (ask: (index: number) => ReturnType<typeof admin.get>) => {
      const all: number[] = [];
      for (let index = 0; index < calls; index += 1) all.push((await ask(index)).status);
      return new Set(all);
    };
    const risk = `/tenants/${id}/config/risk`;
    const write = (index: number) =>
      admin.patch(risk, { global_settings: { max_cost_impact_auto: index } });
    await proxy.silence();
    await eventually(async () => expect(await statuses(write)).toEqual(new Set([200])), 60_000);
    const read = () => admin.get(`/tenants/${id}/config/history`);
    expect(await statuses(read)).toEqual(new Set([200]));
    proxy.mend();
    await eventually(async () => expect(await statuses(read)).toEqual(new Set([200])));
  } finally {
    await node.stop();
    await proxy.stop();
  }
});

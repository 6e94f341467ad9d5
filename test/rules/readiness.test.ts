/** What a node says of itself for a moment only, which no real outage can be made to last. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pino from 'pino';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { Coherence } from '../../shared/coherence/coherence.ts';
import { createReadiness } from '../../shared/node/readiness.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';

/** Its last look at the database has failed. */
let node: Node;
beforeAll(async () => {
  const settings = loadSettings({ LOG_LEVEL: 'silent' }, { roles: [] });
  const probes = { database: async () => false };
  node = createNode({ settings: liveSettings(settings, {}, []), probes });
  await node.broker.start();
});
afterAll(() => node?.broker.stop());

/** With nothing in memory. A feed that answers gives it a lease. */
async function started(feedAnswers: boolean): Promise<Coherence> {
  const coherence = new Coherence({
    nodeId: 'node',
    fenceMs: 2000,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 5,
    staleIdentityMs: () => 60_000,
    log: pino({ level: 'silent' }),
  });
  await coherence.start({
    async poll() {
      if (!feedAnswers) throw new Error('away');
      return { cursor: '1', complete: true, changes: [], server: 'one' };
    },
    leave: async () => {},
    broadcast: () => {},
    hearsOthers: async () => true,
  });
  return coherence;
}

/** As a gateway is: without tables of its own. */
const reader = { name: 'reader', calls: [], vital: [] };

test.each([
  ['that has a lease', true, 'degraded'],
  ['without a lease', false, 'not_ready'],
])(
  'a node %s, whose memory was just emptied, while the database was away at the last look',
  async (_which, feedAnswers, status) => {
    const coherence = await started(feedAnswers);
    try {
      const readiness = createReadiness({ broker: node.broker, coherence, roles: [reader] });
      expect(await readiness.ask()).toMatchObject({ status, checks: { database: false } });
    } finally {
      await coherence.stop();
    }
  },
);

/**
 * A node that hosts no role and may cache, in this process: as a platform service makes one, and
 * with what its owner looks at.
 */
import type { DataSource } from 'typeorm';
import { derivedReads } from '../../services/derived-reads.ts';
import { createNode, type Node } from '../../shared/node/broker.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings } from '../../shared/settings/settings.ts';
import { secretKey } from '../support/strata.ts';

/** With `commits` it also answers the change feed. */
export function bareNode(nodeId: string, natsUrl: string, commits?: DataSource): Node {
  const environment = {
    NODE_ID: nodeId,
    NATS_URL: natsUrl,
    SECRET_KEY: secretKey,
    LOG_LEVEL: 'silent',
  };
  return createNode({
    settings: liveSettings(loadSettings(environment, { roles: [] }), {}, []),
    derivedReads: derivedReads(),
    ...(commits ? { commits } : {}),
  });
}

/**
 * Milliseconds of the machine's clock that never jumps, which is the same for all its processes.
 */
export const machineMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Coherence of a gateway that joins no cluster, for tests of what stands on it. */
import { pino } from 'pino';
import { Coherence } from '../../shared/coherence/coherence.ts';

export const gatewayCoherence = (): Coherence =>
  new Coherence({
    nodeId: 'gateway',
    fenceMs: 2000,
    requestTimeoutMs: 1000,
    ttlMinutes: () => 1,
    staleIdentityMs: () => 1000,
    log: pino({ level: 'silent' }),
  });

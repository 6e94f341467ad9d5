/** Cutting off a chain what was exported. */
import type { DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { auditFacts } from '../../../shared/commits/commit.ts';
import { StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { platformChain } from '../../../shared/security/audit-chain.ts';
import { appendEvents, chainStart, verifyUntil } from '../stores/chains.ts';
import { rewrittenBetween } from '../stores/checkpoints.ts';
import { cutAction, putCut, readCut, signed } from '../stores/cuts.ts';

/** What one cut verifies before it removes it: some seconds of work. */
const mostBytes = 32 * 1024 * 1024;

export const cutActions = (db: DataSource, settings: () => Settings, onCut: () => void) =>
  ({
    async 'audit.cut'({ body: { tenant_id: tenantId, seq, hash } }, request) {
      const chain = tenantId ?? platformChain;
      const cut = await db.transaction(async (manager) => {
        // Whoever cuts at the same time waits, and finds this cut.
        await manager.query('SELECT FROM audit.chains WHERE chain = $1 FOR UPDATE', [chain]);
        const earlier = await readCut(manager, chain);
        if (earlier && earlier.seq >= seq)
          throw new StrataError('conflict', `The chain is cut at ${earlier.seq} already.`);
        const from = earlier ?? chainStart;
        const reached = await verifyUntil(manager, chain, from, seq, mostBytes);
        if (reached.broken)
          throw new StrataError(
            'conflict',
            `The chain is broken at ${reached.broken.seq}: ${reached.broken.problem}. Nothing was cut.`,
          );
        if (reached.seq < seq)
          throw new StrataError(
            'payload_too_large',
            `One cut removes some 32 MiB of events. Cut at ${reached.seq} first.`,
          );
        if (reached.hash !== hash)
          throw new StrataError('conflict', `The event ${seq} of the chain has another hash.`);
        // Nothing could be compared with these checkpoints once their events are gone.
        const rewritten = await rewrittenBetween(manager, chain, from.seq, seq);
        if (rewritten !== undefined)
          throw new StrataError(
            'conflict',
            `The chain is broken at ${rewritten}: its checkpoint has another hash of this event. Nothing was cut.`,
          );
        const statement = {
          chain,
          seq,
          hash,
          cut_at: new Date().toISOString(),
          cut_by: request.caller.id,
        };
        const made = signed(statement, settings());
        await putCut(manager, made);
        const draft = { action: cutAction, tenant_id: null, target: chain, payload: made };
        await appendEvents(manager, [auditFacts(draft, request)]);
        return made;
      });
      onCut();
      const { chain: _chain, ...shown } = cut;
      return { tenant_id: tenantId ?? null, ...shown };
    },
  }) satisfies Handlers;

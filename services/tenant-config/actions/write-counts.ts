/** Writes of tenants' documents that rules refuse, as gates of rollouts compare them. */
import type { DataSource } from 'typeorm';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { contractOf, type ActionName } from '../../../shared/contracts/index.ts';
import { codeOf, statusOf } from '../../../shared/errors.ts';
import { besideRest } from '../../../shared/rollouts/beside.ts';
import { writesSince, type WriteCounts } from '../stores/write-counts.ts';

export const writeCountActions = (db: DataSource) =>
  ({
    'tenant-config.writes.figures': async ({ since, ...cohort }) =>
      besideRest(await writesSince(db, new Date(since)), cohort),
  }) satisfies Handlers;

interface Params {
  readonly tenant_id: string;
  readonly dry_run?: boolean;
}
type Write = (params: Params, request: Request) => Promise<unknown>;

/** All handlers, whose writes are counted: not what is only tried, nor bodies of another form. */
export function counting(handlers: Handlers, counts: WriteCounts): Handlers {
  const counted =
    (write: Write): Write =>
    async (params, request) => {
      if (params.dry_run) return write(params, request);
      try {
        const answer = await write(params, request);
        counts.count(params.tenant_id);
        return answer;
      } catch (error) {
        const status = statusOf(codeOf(error));
        if (status < 500) counts.count(params.tenant_id, status === 422);
        throw error;
      }
    };
  const all = Object.entries(handlers) as [ActionName, Write][];
  const named = all.map(([name, handler]) => [
    name,
    contractOf(name)?.response === 'write' ? counted(handler) : handler,
  ]);
  return Object.fromEntries(named) as Handlers;
}

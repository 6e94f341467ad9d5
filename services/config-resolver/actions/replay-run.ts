/**
 * The work of a replay: decisions page by page, each looked at by what it was made by and by what is
 * proposed. Those of one revision of tenant and platform, and of one context, are made by one merged
 * configuration; what a page of them needs is read together.
 */
import { performance } from 'node:perf_hooks';
import type { Call } from '../../../shared/contract-runtime/request.ts';
import type {
  ProposedDocument,
  Replay,
  Replayable,
  ReplayTotals,
} from '../../../shared/contracts/decisions.ts';
import type { Sources } from '../rules/layers.ts';
import { nothingReplayed, Replaying } from '../rules/replay.ts';
import type { SavedBudgets } from '../rules/replayed-budgets.ts';
import { Configurations, type Pair } from './replay-configurations.ts';

const pageSize = 400;

/** What is structured-cloned to the worker. */
export interface ReplayRun {
  readonly tenantId: string;
  readonly span: { readonly from: string; readonly until: string };
  /** After so long no page is begun, but the first is. */
  readonly patienceMs: number;
  readonly environment: Sources['environment'];
  /** What is proposed: documents that hold at every moment, or the configuration of one. */
  readonly documents: readonly ProposedDocument[];
  readonly pair?: Pair | undefined;
  /** So many decisions that change are answered; others are counted. */
  readonly mostItems: number;
  /** Where a replay continues: the last decision, and what was found up to it. */
  readonly begun?: Pick<ReplayFound, 'after' | 'counted' | 'hasNewBudgets'> & {
    readonly budgets: readonly SavedBudgets[];
  };
}

export interface ReplayFound {
  /** Whether all decisions of the span were looked at. */
  readonly isThrough: boolean;
  readonly after: string | undefined;
  readonly counted: ReplayTotals;
  /** Undefined where they are too many for a cursor. */
  readonly budgets: SavedBudgets[] | undefined;
  readonly hasNewBudgets: boolean;
  readonly items: Replay['items'];
  readonly itemsLeftOut: number;
}

export async function runReplay(
  { tenantId, span, patienceMs, environment, documents, pair, mostItems, begun }: ReplayRun,
  call: Call,
): Promise<ReplayFound> {
  const giveUp = performance.now() + patienceMs;
  const configurations = new Configurations(tenantId, { environment, call }, documents, pair);
  const replaying = new Replaying(begun?.counted ?? nothingReplayed());
  replaying.budgets.restore(begun?.budgets ?? []);
  replaying.hasNewBudgets = begun?.hasNewBudgets ?? false;
  const items: Replay['items'] = [];
  let itemsLeftOut = 0;
  function pageAfter(last: string | undefined): Promise<string[]> {
    const part = { ...span, ...(last !== undefined && { after: last }), limit: pageSize };
    const page = call('notifier.decisions.replayable', { tenant_id: tenantId, ...part });
    // An error is met where the page is looked at, if it comes to that.
    page.catch(() => {});
    return page;
  }
  let after = begun?.after;
  let next = pageAfter(after);
  let isThrough: boolean;
  do {
    const page = (await next).flatMap((part) => JSON.parse(part) as Replayable[]);
    const last = page.at(-1);
    if (last) after = `${last.decided_at} ${last.id}`;
    isThrough = page.length < pageSize;
    // The database reads it while this one is looked at.
    if (!isThrough) next = pageAfter(after);
    await configurations.load(page);
    for (const decision of page) {
      const item = replaying.look(decision, ...configurations.of(decision));
      if (!item) continue;
      if (items.length < mostItems) items.push(item);
      else itemsLeftOut += 1;
    }
  } while (!isThrough && performance.now() < giveUp);
  return {
    isThrough,
    after,
    counted: replaying.totals(),
    budgets: replaying.budgets.save(),
    hasNewBudgets: replaying.hasNewBudgets,
    items,
    itemsLeftOut,
  };
}

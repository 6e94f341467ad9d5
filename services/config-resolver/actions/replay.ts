/**
 * Replaying decisions. Those of one revision of tenant and platform, and of one context, are made by
 * one merged configuration; what a page of them needs is read together.
 */
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import canonicalize from 'canonicalize';
import { Type, type Static } from 'typebox';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { ReplayTotals, type Replay, type Replayable } from '../../../shared/contracts/decisions.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { strict } from '../../../shared/contracts/fields.ts';
import type { DecisionsImpact } from '../../../shared/contracts/impact.ts';
import { decodeCursor, encodeCursor, momentIn } from '../../../shared/documents/paging.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { environmentDefaults } from '../rules/layers.ts';
import { nothingReplayed, Replaying } from '../rules/replay.ts';
import { Configurations } from './replay-configurations.ts';
import { Slices } from './slices.ts';

type Asked = ParamsOf<'config-resolver.decisions.replay'>['body'];

/** After this long an answer is given of the decisions that were looked at. */
const patienceMs = 8000;
const pageSize = 400;
const defaultItems = 50;

const Position = Type.Object(
  {
    base: Type.String(),
    until: Type.String(),
    after: Type.String(),
    counted: ReplayTotals,
    budgets: Type.Array(
      Type.Tuple([
        Type.String(),
        Type.Array(
          Type.Tuple([
            Type.Integer(),
            Type.String({ pattern: '^-?[0-9]{1,30}$' }),
            Type.String({ pattern: '^-?[0-9]{1,30}$' }),
          ]),
        ),
      ]),
    ),
    has_new_budgets: Type.Boolean(),
  },
  strict,
);
type Position = Static<typeof Position>;

const encode = (position: Position): string =>
  deflateRawSync(JSON.stringify(position)).toString('base64url');

/** Throws 422 for what is no cursor of this question. */
function decode(cursor: string, base: string): Position {
  const position = parsed(cursor);
  if (position?.base !== base)
    throw invalid([{ path: '/cursor', message: 'is not a cursor of this replay' }]);
  return position;
}

function parsed(cursor: string): Position | undefined {
  try {
    const text = inflateRawSync(Buffer.from(cursor, 'base64url'), { maxOutputLength: 4_000_000 });
    const position: unknown = JSON.parse(text.toString());
    return problemsOf(Position, position).length === 0 ? (position as Position) : undefined;
  } catch {
    return undefined;
  }
}

const baseOf = (tenantId: string, { from, until, proposed }: Asked): string =>
  createHash('sha256')
    .update(canonicalize([tenantId, from, until ?? null, proposed])!)
    .digest('base64url');

export function replayActions(settings: () => Settings) {
  /** Tenants that a replay of this node is about: one at a time, since it takes much. */
  const running = new Set<string>();
  return {
    async 'config-resolver.decisions.replay'({ tenant_id: tenantId, body }, request) {
      if (running.has(tenantId))
        throw new StrataError(
          'rate_limited',
          'Another replay of the tenant is under way. Try again when it has ended.',
          { headers: { 'retry-after': '5' } },
        );
      running.add(tenantId);
      try {
        return await replay(tenantId, body, settings(), request);
      } finally {
        running.delete(tenantId);
      }
    },

    'config-resolver.decisions.impact': ({ body }, request) => impact(body, settings(), request),
  } satisfies Handlers;
}

async function replay(
  tenantId: string,
  body: Asked,
  settings: Settings,
  request: Request,
): Promise<Replay> {
  const giveUp = performance.now() + patienceMs;
  const base = baseOf(tenantId, body);
  const begun = body.cursor === undefined ? undefined : decode(body.cursor, base);
  const from = momentIn('from', body.from).toISOString();
  const until = momentIn('until', begun?.until ?? body.until ?? new Date().toISOString()).toJSON();
  const configurations = await Configurations.of(tenantId, body.proposed, {
    environment: environmentDefaults(settings),
    call: request.call,
  });
  const replaying = new Replaying(begun?.counted ?? nothingReplayed());
  replaying.budgets.restore(begun?.budgets ?? []);
  replaying.hasNewBudgets = begun?.has_new_budgets ?? false;
  const items: Replay['items'] = [];
  let leftOut = 0;
  const { isThrough, after } = await run({
    tenantId,
    span: { from, until },
    after: decodeCursor(begun?.after, 'time'),
    giveUp,
    configurations,
    replaying,
    request,
    onChanged(item) {
      if (items.length < (body.limit ?? defaultItems)) items.push(item);
      else leftOut += 1;
    },
  });
  const counted = replaying.totals();
  const budgets = replaying.budgets.save();
  const startsAgain = replaying.hasNewBudgets || (!isThrough && budgets === undefined);
  return {
    ...counted,
    items,
    items_left_out: leftOut,
    not_replayed: [
      'slots',
      'approvals',
      'environment',
      ...(startsAgain ? (['budgets_before_from'] as const) : []),
    ],
    complete: isThrough,
    cursor: isThrough
      ? null
      : encode({
          base,
          until,
          after: encodeCursor(after!),
          counted,
          budgets: (budgets ?? []) as Position['budgets'],
          has_new_budgets: startsAgain,
        }),
  };
}

interface Run {
  readonly tenantId: string;
  readonly span: { readonly from: string; readonly until: string };
  /** The decision to continue after. */
  readonly after?: string | undefined;
  /** By `performance.now()`: no page begins later, but the first does. */
  readonly giveUp: number;
  readonly configurations: Configurations;
  readonly replaying: Replaying;
  readonly request: Pick<Request, 'call'>;
  readonly onChanged: (item: Replay['items'][number]) => void;
}

/** Page by page, until all are looked at or the time is over. */
async function run(options: Run): Promise<{ isThrough: boolean; after: string | undefined }> {
  const { tenantId, span, giveUp, configurations, replaying, request, onChanged } = options;
  const slices = new Slices();
  function pageAfter(last: string | undefined): Promise<Replayable[]> {
    const part = { ...span, ...(last !== undefined && { after: last }), limit: pageSize };
    const page = request.call('notifier.decisions.replayable', { tenant_id: tenantId, ...part });
    // An error is met where the page is looked at, if it comes to that.
    page.catch(() => {});
    return page;
  }
  let { after } = options;
  let next = pageAfter(after);
  let isThrough: boolean;
  do {
    const page = await next;
    const last = page.at(-1);
    if (last) after = `${last.decided_at} ${last.id}`;
    isThrough = page.length < pageSize;
    // The database reads it while this one is looked at.
    if (!isThrough) next = pageAfter(after);
    await configurations.load(page, slices);
    for (const decision of page) {
      const item = replaying.look(decision, ...configurations.of(decision));
      if (item) onChanged(item);
      if (slices.isOver()) await slices.breathe();
    }
  } while (!isThrough && performance.now() < giveUp);
  return { isThrough, after };
}

/** How far an impact looks back, how long it may take, and at how many tenants it looks. */
const impactDays = 7;
const impactMs = 1000;
const mostTenants = 1000;

async function impact(
  { tenant_id: tenantId, documents }: ParamsOf<'config-resolver.decisions.impact'>['body'],
  settings: Settings,
  request: Request,
): Promise<DecisionsImpact> {
  const giveUp = performance.now() + impactMs;
  const until = new Date();
  const from = new Date(until.getTime() - impactDays * 86_400_000).toISOString();
  const limit = mostTenants + 1;
  const tenants =
    documents.length === 0
      ? []
      : tenantId === undefined
        ? await request.call('notifier.decisions.tenants', { from, limit })
        : [tenantId];
  const found = { from, tenants: 0, total: 0, changed: {} as Record<string, number>, unknown: 0 };
  const span = { from, until: until.toISOString() };
  const options = { environment: environmentDefaults(settings), call: request.call };
  let isWhole = tenants.length <= mostTenants;
  for (const id of tenants.slice(0, mostTenants)) {
    if (performance.now() > giveUp) return { ...found, complete: false };
    const configurations = new Configurations(id, options, documents);
    const replaying = new Replaying(nothingReplayed());
    const onChanged = (): void => undefined;
    const own = { tenantId: id, span, giveUp, configurations, replaying, request, onChanged };
    const { isThrough } = await run(own);
    const { total, changed, unknown } = replaying.totals();
    found.tenants += 1;
    found.total += total;
    for (const [change, count] of Object.entries(changed))
      found.changed[change] = (found.changed[change] ?? 0) + count;
    found.unknown += Object.values(unknown).reduce((sum, count) => sum + count, 0);
    isWhole &&= isThrough;
  }
  return { ...found, complete: isWhole };
}

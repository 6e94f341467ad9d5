/** Replaying decisions: what is asked and answered. The work is done in a thread beside the node's. */
import { performance } from 'node:perf_hooks';
import { Type, type Static } from 'typebox';
import type { Call, Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { ReplayTotals, type Replay } from '../../../shared/contracts/decisions.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { strict, Timestamp } from '../../../shared/contracts/fields.ts';
import type { DecisionsImpact } from '../../../shared/contracts/impact.ts';
import { decodeCursor, encodeCursor, positionCursors } from '../../../shared/documents/paging.ts';
import { requireReading } from '../../../shared/documents/trial.ts';
import { invalid, StrataError, type ErrorData } from '../../../shared/errors.ts';
import { synchronizedNow } from '../../../shared/process/synchronized-clock.ts';
import { canonicalHash } from '../../../shared/schema/canonical-hash.ts';
import { momentOf, timestampOf } from '../../../shared/schema/moment.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { environmentDefaults } from '../rules/layers.ts';
import type { Pair } from './replay-configurations.ts';
import type { ReplayRun } from './replay-run.ts';
import type { ReplayThread } from './replay-thread.ts';

type Asked = ParamsOf<'config-resolver.decisions.replay'>['body'];

/** After this long an answer is given of the decisions that were looked at. */
const patienceMs = 8000;
const defaultItems = 50;

const Position = Type.Object(
  {
    base: Type.String(),
    until: Timestamp,
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

const cursors = positionCursors(Position, 4_000_000);

/** Throws 422 for what is no cursor of this question. */
function decode(cursor: string, base: string): Position {
  const position = cursors.decode(cursor);
  if (position?.base !== base)
    throw invalid([{ path: '/cursor', message: 'is not a cursor of this replay' }]);
  return position;
}

const baseOf = (tenantId: string, { from, until, proposed }: Asked): string =>
  canonicalHash([tenantId, from, until ?? null, proposed], 'base64url');

export function replayActions(settings: () => Settings, thread: ReplayThread) {
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
        return await replay(tenantId, body, settings(), thread, request);
      } finally {
        running.delete(tenantId);
      }
    },

    'config-resolver.decisions.impact': ({ body }, request) =>
      impact(body, settings(), thread, request),
  } satisfies Handlers;
}

async function replay(
  tenantId: string,
  body: Asked,
  settings: Settings,
  thread: ReplayThread,
  request: Request,
): Promise<Replay> {
  if (body.proposed.items !== undefined)
    requireReading(request.caller, 'config:read', 'What is tried tells what there is');
  const base = baseOf(tenantId, body);
  const begun = body.cursor === undefined ? undefined : decode(body.cursor, base);
  const from = momentOf(body.from)!.toISOString();
  const until = momentOf(
    begun?.until ?? body.until ?? timestampOf(synchronizedNow()),
  )!.toISOString();
  const run: ReplayRun = {
    tenantId,
    span: { from, until },
    patienceMs,
    environment: environmentDefaults(settings),
    ...(await proposedBy(tenantId, body.proposed, request.call)),
    mostItems: body.limit ?? defaultItems,
    ...(begun && {
      begun: {
        after: decodeCursor(begun.after, 'time'),
        counted: begun.counted,
        budgets: begun.budgets,
        hasNewBudgets: begun.has_new_budgets,
      },
    }),
  };
  const found = await thread.run(run, request);
  const { isThrough, after, counted, budgets } = found;
  const startsAgain = found.hasNewBudgets || (!isThrough && budgets === undefined);
  return {
    ...counted,
    items: found.items,
    items_left_out: found.itemsLeftOut,
    not_replayed: [
      'slots',
      'approvals',
      'environment',
      ...(startsAgain ? (['budgets_before_from'] as const) : []),
    ],
    complete: isThrough,
    cursor: isThrough
      ? null
      : cursors.encode({
          base,
          until,
          after: encodeCursor(after!),
          counted,
          budgets: (budgets ?? []) as Position['budgets'],
          has_new_budgets: startsAgain,
        }),
  };
}

async function proposedBy(
  tenantId: string,
  { as_of: asOf, ...body }: Asked['proposed'],
  call: Call,
): Promise<Pick<ReplayRun, 'documents' | 'pair'>> {
  if (asOf !== undefined) return { documents: [], pair: await pairAt(tenantId, asOf, call) };
  const asked = call('tenant-config.proposed', { tenant_id: tenantId, body });
  return { documents: await asked.catch(refuseProposal) };
}

/** Its problems by where they are in the replay's body. */
function refuseProposal(error: unknown): never {
  const { errors } = error instanceof StrataError ? (error.data as ErrorData) : {};
  if (!errors) throw error;
  throw invalid(errors.map(({ path, message }) => ({ path: `/proposed${path}`, message })));
}

/** Throws `before_history` for a moment before the tenant. */
async function pairAt(tenantId: string, asOf: string, call: Call): Promise<Pair> {
  const moment = momentOf(asOf)!.toISOString();
  const tenant = await call('tenant-config.layers', { tenant_id: tenantId, as_of: moment });
  const platform = await call('global-config.layers', { as_of: moment });
  return { tenant: tenant.revision, platform: platform.revision };
}

/** How far an impact looks back, how long it may take, and at how many tenants it looks. */
const impactDays = 30;
const impactMs = 1000;
const mostTenants = 1000;

async function impact(
  { tenant_id: tenantId, documents }: ParamsOf<'config-resolver.decisions.impact'>['body'],
  settings: Settings,
  thread: ReplayThread,
  request: Request,
): Promise<DecisionsImpact> {
  const giveUp = performance.now() + impactMs;
  const until = new Date(synchronizedNow());
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
  const environment = environmentDefaults(settings);
  let isWhole = tenants.length <= mostTenants;
  for (const id of tenants.slice(0, mostTenants)) {
    const patience = giveUp - performance.now();
    if (patience < 0) return { ...found, complete: false };
    const own = { tenantId: id, span, patienceMs: patience, environment, documents, mostItems: 0 };
    const { isThrough, counted } = await thread.run(own, request);
    const { total, changed, unknown } = counted;
    found.tenants += 1;
    found.total += total;
    for (const [change, count] of Object.entries(changed))
      found.changed[change] = (found.changed[change] ?? 0) + count;
    found.unknown += Object.values(unknown).reduce((sum, count) => sum + count, 0);
    isWhole &&= isThrough;
  }
  return { ...found, complete: isWhole };
}

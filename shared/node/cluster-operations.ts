/**
 * Operations on the whole cluster. Whichever node is called asks every node that is up, itself
 * included, collects the answers and records one audit event. A node that fails or stays silent is
 * named in the answer, and the others have done their part.
 */
import type { ServiceBroker } from 'moleculer';
import { serviceCaller } from '../access.ts';
import { actorOf, auditFacts, type EventDraft } from '../commits/commit.ts';
import type { ActionName, ParamsOf, ResultOf } from '../contracts/index.ts';
import { tenantScope } from '../contracts/revision-scopes.ts';
import { codeOf, invalid, isOutage, StrataError } from '../errors.ts';
import { uuid } from '../schema/uuid.ts';
import { nodesOf } from './nodes.ts';
import { callAs, type Handlers, type Request } from '../contract-runtime/request.ts';

type ReloadRequest = ParamsOf<'cluster.reload'>['body'];
type ReloadSummary = ResultOf<'cluster.reload'>;
type Invalidated = ReloadSummary['invalidated'];
type NodeError = NonNullable<ReloadSummary['errors']>[number];

/** A node that has not answered by then is reported. */
const nodeTimeoutMs = 5000;
/**
 * A tenant's cache keys begin with its id; what a tenant names itself comes after, and may look
 * like one.
 */
const firstUuid = new RegExp(uuid);

const noneInvalidated: Invalidated = { all: false, tenant_ids: [] };
const everybody: Invalidated = { all: true, tenant_ids: [] };

interface Collected<A extends ActionName> {
  readonly answers: readonly { readonly node: string; readonly result: ResultOf<A> }[];
  readonly errors: readonly NodeError[];
}

interface ReloadPhases {
  readonly invalidated: Invalidated;
  /** Empty where the environment was not to be reloaded. */
  readonly environments: Collected<'cluster.node.reload-environment'>;
  readonly cleared: Collected<'cluster.node.clear'>;
}

const union = (lists: readonly (readonly string[])[]): string[] =>
  [...new Set(lists.flat())].sort();

/** Asks these nodes at once. `operation` is what their errors are shown under. */
async function ask<A extends ActionName>(
  broker: ServiceBroker,
  nodes: readonly string[],
  action: A,
  params: ParamsOf<A>,
  { operation, requestId }: { operation: string; requestId: string },
): Promise<Collected<A>> {
  const options = { caller: serviceCaller('cluster'), requestId, timeout: nodeTimeoutMs };
  const calls = nodes.map((node) => callAs(broker, action, params, { ...options, nodeID: node }));
  const outcomes = await Promise.allSettled(calls);
  const answers: { node: string; result: ResultOf<A> }[] = [];
  const errors: NodeError[] = [];
  for (const [index, outcome] of outcomes.entries()) {
    const node = nodes[index]!;
    if (outcome.status === 'fulfilled') answers.push({ node, result: outcome.value });
    else errors.push({ node, action: operation, message: messageOf(outcome.reason) });
  }
  return { answers, errors };
}

/**
 * Any node with a database can do it: asks one after the other, so that one that has just gone
 * away does not fail the whole. Throws what the last one did where none can.
 */
async function askAny<A extends ActionName>(
  broker: ServiceBroker,
  nodes: readonly string[],
  action: A,
  params: ParamsOf<A>,
  requestId: string,
): Promise<void> {
  const options = { caller: serviceCaller('cluster'), requestId, timeout: nodeTimeoutMs };
  let failure: unknown = new StrataError('service_unavailable', 'No node answers. Try again.');
  for (const nodeID of nodes) {
    try {
      await callAs(broker, action, params, { ...options, nodeID });
      return;
    } catch (error) {
      if (!isOutage(error)) throw error;
      failure = error;
    }
  }
  throw failure;
}

export function clusterOperations(broker: ServiceBroker): Handlers {
  /**
   * In two phases: effective values hold defaults of the environment, and identities who
   * administers the platform, so both are dropped once every node has its new environment. Else a
   * node that still has its old one would hand old values to a node that has cleared its own. Where
   * tenants are named and no setting changed, theirs alone are cleared.
   */
  async function reloadNodes(
    nodes: readonly string[],
    body: ReloadRequest,
    requestId: string,
  ): Promise<ReloadPhases> {
    const { reload_env: reloadEnv = false, dry_run: dryRun = false, reinit } = body;
    const as = { operation: 'reload', requestId };
    const environments = await ask(
      broker,
      reloadEnv ? nodes : [],
      'cluster.node.reload-environment',
      { body: { dry_run: dryRun } },
      as,
    );
    const reloaded = environments.answers.map(({ node }) => node);
    const invalidated = invalidationOf(body, settingsMayDiffer(environments));
    const unchanged = invalidated.all ? {} : ({ unchanged: true } as const);
    if (reloadEnv && !dryRun)
      await askAny(broker, reloaded, 'feed.settings-replaced', unchanged, requestId);
    const silent = environments.errors.map(({ node }) => node);
    const cleared = await ask(
      broker,
      nodes.filter((node) => !silent.includes(node)),
      'cluster.node.clear',
      {
        body: {
          configuration_service: reinit?.configuration_service === true,
          dynamic_config_service: invalidated,
          dry_run: dryRun,
        },
      },
      as,
    );
    return { environments, invalidated, cleared };
  }

  /** Through the feed's outbox, since the node that is called may have no database. */
  const record = (nodes: readonly string[], event: EventDraft, request: Request): Promise<void> =>
    askAny(broker, nodes, 'feed.record', { body: [auditFacts(event, request)] }, request.requestId);

  async function reload(body: ReloadRequest, request: Request): Promise<ReloadSummary> {
    const nodes = nodesOf(broker).map(({ id }) => id);
    const phases = await reloadNodes(nodes, body, request.requestId);
    const summary = summaryOf(body, nodes, phases);
    const { type, id } = actorOf(request.caller);
    await record(
      phases.cleared.answers.map(({ node }) => node),
      {
        action: 'config_reloaded',
        tenant_id: null,
        target: null,
        // A platform admin who reloads over REST acts as an operator.
        actor: { type: type === 'user' ? 'operator' : type, id },
        payload: { request: body, status: summary.status, nodes: summary.nodes },
      },
      request,
    );
    return summary;
  }

  async function invalidate(
    tenantId: string,
    keys: string[] | undefined,
    request: Request,
  ): Promise<ResultOf<'cluster.invalidate'>> {
    const isOwn = (key: string): boolean => firstUuid.exec(key)?.[0] === tenantId;
    if (keys?.some((key) => !isOwn(key)))
      throw new StrataError('tenant_mismatch', 'A key does not belong to your tenant.');

    const { answers, errors } = await ask(
      broker,
      nodesOf(broker).map(({ id }) => id),
      'cluster.node.drop',
      { body: { tenant_id: tenantId, ...(keys ? { keys } : {}) } },
      { operation: 'invalidate', requestId: request.requestId },
    );
    await record(
      answers.map(({ node }) => node),
      {
        action: 'config.cache.invalidated',
        tenant_id: tenantId,
        target: tenantScope(tenantId),
        payload: { keys: keys ?? null, status: errors.length === 0 ? 'ok' : 'partial' },
      },
      request,
    );
    const dropped = union(answers.map(({ result }) => result.dropped));
    return {
      tenant_id: tenantId,
      invalidated: keys ?? dropped.filter(isOwn),
      nodes: answers.length,
      timestamp: new Date().toISOString(),
      ...(errors.length > 0 ? { errors: [...errors] } : {}),
    };
  }

  return {
    'cluster.reload': ({ body }, request) => reload(body, request),
    'cluster.invalidate': async ({ tenant_id: tenantId, body: { keys } }, request) => {
      // The gateway fills in the caller's own tenant.
      if (tenantId === undefined) throw invalid([{ path: '/tenant_id', message: 'is required' }]);
      return invalidate(tenantId, keys, request);
    },
  };
}

/** A node that did not answer may have other settings by now. */
const settingsMayDiffer = ({ answers, errors }: ReloadPhases['environments']): boolean =>
  errors.length > 0 || answers.some(({ result }) => result.changed_settings.length > 0);

/**
 * Whose effective values a reload clears: those of the named tenants, else everybody's where
 * anything asks for clearing at all. Settings that changed may change everybody's.
 */
function invalidationOf(
  { reload_env: reloadEnv = false, invalidate, reinit }: ReloadRequest,
  mayDiffer: boolean,
): Invalidated {
  const asked = reloadEnv || invalidate !== undefined || reinit?.dynamic_config_service === true;
  if (!asked) return noneInvalidated;
  if (mayDiffer) return everybody;
  const tenants = invalidate?.tenant_ids ?? [];
  return tenants.length > 0 ? { all: false, tenant_ids: tenants } : everybody;
}

/** The answer to a reload: what was done on the nodes that answered, and which did not. */
function summaryOf(
  { dry_run: dryRun = false, reinit = {} }: ReloadRequest,
  nodes: readonly string[],
  { environments, invalidated, cleared }: ReloadPhases,
): ReloadSummary {
  const refused = environments.answers.flatMap(({ node, result: { problem } }) =>
    problem === null ? [] : [{ node, action: 'reload_env', message: problem }],
  );
  const errors = [...environments.errors, ...cleared.errors, ...refused];
  const failed = errors.map(({ node }) => node);
  const anyCleared = cleared.answers.length > 0;
  const reinitialized = (['configuration_service', 'dynamic_config_service'] as const).filter(
    (cache) => anyCleared && reinit[cache] === true,
  );
  const changes = environments.answers.map(({ result }) => result);
  return {
    status: errors.length === 0 ? 'ok' : 'partial',
    reloaded_env: changes.some(({ problem }) => problem === null),
    invalidated: anyCleared ? invalidated : noneInvalidated,
    reinitialized,
    timestamp: new Date().toISOString(),
    requires_restart: union(changes.map((each) => each.requires_restart)),
    changed_settings: union(
      changes.map((each) => [...each.changed_settings, ...each.requires_restart]),
    ),
    nodes: nodes.filter((node) => !failed.includes(node)),
    ...(dryRun ? { dry_run: true } : {}),
    ...(errors.length > 0 ? { errors } : {}),
  };
}

/** What an error of the call means for the node. */
function messageOf(error: unknown): string {
  switch (codeOf(error)) {
    case 'timeout':
      return `did not answer in ${nodeTimeoutMs / 1000} s`;
    case 'service_unavailable':
      return 'is not available';
    default:
      return (error as Error).message;
  }
}

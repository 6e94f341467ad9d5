/** The console's way to call: as a member of the cluster that acts as one operator. */
import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceBroker } from 'moleculer';
import type { Caller } from '../../shared/access.ts';
import { createNode } from '../../shared/node/broker.ts';
import { nodesOf, type NodeInfo } from '../../shared/node/nodes.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { ActionName, ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { codeOf, errorResponse, StrataError } from '../../shared/errors.ts';
import { liveSettings } from '../../shared/settings/live-settings.ts';
import { loadSettings, readEnvironment } from '../../shared/settings/settings.ts';
import { tenantsNamed } from '../pages.ts';
import { Failed, type Session, type Typed } from '../session.ts';

export interface ClusterSession extends Session {
  /** The name that the audit shows. */
  readonly operator: string;
  readonly broker: ServiceBroker;
  /** On the node `node` where it is given. */
  readonly call: <A extends ActionName>(
    action: A,
    params: Typed<ParamsOf<A>>,
    node?: string,
  ) => Promise<ResultOf<A>>;
  readonly nodes: () => readonly NodeInfo[];
  readonly leave: () => Promise<void>;
}

/** The console cannot become a member of a cluster; the message says what to do. */
export class CannotJoin extends Error {}

const joinMs = 10_000;
/** A node that has just joined hears of the others within a second. */
const findMs = 3000;
/** A node that has not answered by then about itself is shown as not answering. */
const answerMs = 3000;

/** Joins over NATS. Throws CannotJoin. */
export async function join(): Promise<ClusterSession> {
  const environment = readEnvironment();
  const settings = loadSettings(environment, { roles: [] });
  if (settings.nats_url === null) {
    throw new CannotJoin(
      [
        'The REPL joins a cluster over NATS, and NATS_URL is not set.',
        'Give it the NATS_* variables of the nodes, or the file that has them: ENV_FILE=<file> npm run repl.',
        `Without NATS everything runs in one process that no one can join: use its API, ${settings.base_url}/docs, as a platform admin.`,
      ].join('\n'),
    );
  }
  if (settings.secret_key === null)
    throw new CannotJoin('The REPL is a node of the cluster: give it the SECRET_KEY of the nodes.');
  const operator = settings.strata_operator ?? userInfo().username;
  const broker = brokerOf(environment, operator);
  await startWithin(joinMs, broker, settings.nats_url);

  const caller: Caller = {
    type: 'operator',
    id: operator,
    tenant_id: null,
    roles: [],
    platform_roles: [],
  };
  async function call<A extends ActionName>(
    action: A,
    typed: Typed<ParamsOf<A>>,
    node?: string,
  ): Promise<ResultOf<A>> {
    // Every call is checked against its contract, whatever its type says here.
    const params = typed as ParamsOf<A>;
    const requestId = randomUUID();
    try {
      if (node !== undefined) {
        const options = { caller, requestId, nodeID: node, timeout: answerMs };
        return await callAs(broker, action, params, options);
      }
      await findService(broker, action);
      const nodeID = action === 'cluster.nodes' ? eldestOf(broker) : undefined;
      return await callAs(broker, action, params, { caller, requestId, ...(nodeID && { nodeID }) });
    } catch (error) {
      throw failed(error, requestId);
    }
  }
  return {
    operator,
    broker,
    call,
    tenants: (word) => tenantsNamed({ call }, word),
    nodes: () => nodesOf(broker),
    leave: () => broker.stop(),
  };
}

/** This node has just joined: it saw nobody go. */
function eldestOf(broker: ServiceBroker): string | undefined {
  const startOf = ({ about }: NodeInfo): string => about?.started_at ?? '';
  const members = nodesOf(broker).filter(({ about }) => about !== undefined);
  return members.toSorted((one, other) => startOf(one).localeCompare(startOf(other)))[0]?.id;
}

function failed(error: unknown, requestId: string): Failed {
  const { detail, errors = [] } = errorResponse(error, requestId).body;
  return new Failed(codeOf(error), detail.message, { problems: errors, requestId, cause: error });
}

function brokerOf(
  environment: ReturnType<typeof readEnvironment>,
  operator: string,
): ServiceBroker {
  const name = operator.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 60);
  // Not the NODE_ID of the environment: on a node's own machine that is the node's.
  const fixed = { NODE_ID: `repl-${name}-${process.pid}`, LOG_LEVEL: 'silent' };
  const settings = loadSettings({ ...environment, ...fixed }, { roles: [] });
  return createNode({ settings: liveSettings(settings, fixed, []) }).broker;
}

async function startWithin(ms: number, broker: ServiceBroker, natsUrl: string): Promise<void> {
  const started = broker.start().then(() => true);
  const inTime = await Promise.race([started, delay(ms, false, { ref: false })]);
  if (inTime) return;
  const hosts = natsUrl.split(',').map((url) => new URL(url).host);
  throw new CannotJoin(`NATS does not answer at ${hosts.join(', ')}. Check NATS_URL.`);
}

/** Waits until a node that answers the action is known. */
async function findService(broker: ServiceBroker, action: ActionName): Promise<void> {
  const [service] = action.split('.') as [string];
  // This node answers for the cluster itself, as soon as it knows the others: those with the feed
  // also take the audit event.
  const awaited = service === 'cluster' ? 'feed' : service;
  try {
    await broker.waitForServices(awaited, findMs);
  } catch {
    throw new StrataError('service_unavailable', `No node hosts ${awaited} now.`);
  }
}

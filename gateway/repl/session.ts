import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { ownHandlers } from '../reload.ts';
import { checkAccess, serviceCaller, type Caller } from '../../shared/access.ts';
import { createNode } from '../../shared/cluster/broker.ts';
import { checkParams } from '../../shared/cluster/contract-middleware.ts';
import { liveSettings } from '../../shared/live-settings.ts';
import { callAs } from '../../shared/cluster/request.ts';
import {
  contracts,
  type ActionName,
  type ParamsOf,
  type ResultOf,
} from '../../shared/contracts/index.ts';
import { StrataError } from '../../shared/errors.ts';
import { loadSettings, readEnvironment } from '../../shared/settings.ts';

/** A member of the cluster that acts as one operator. */
export interface Session {
  readonly operator: string;
  readonly call: <A extends ActionName>(action: A, params: ParamsOf<A>) => Promise<ResultOf<A>>;
  /** Asks one node about itself, as its neighbour; such actions know no operators. */
  readonly ask: <A extends 'node.caches' | 'node.health'>(
    node: string,
    action: A,
    params: ParamsOf<A>,
  ) => Promise<ResultOf<A>>;
  /** Asks every node, as the gateway does for its routes. */
  readonly everywhere: <A extends 'gateway.reload' | 'config-resolver.invalidate'>(
    action: A,
    params: ParamsOf<A>,
  ) => Promise<unknown>;
  readonly nodes: () => readonly Node[];
  readonly leave: () => Promise<void>;
}
export interface Node {
  readonly id: string;
  readonly services: readonly string[];
  readonly hostname: string;
  readonly self: boolean;
}

/** What a failure is shown with: the request id leads to the log lines of every node that saw it. */
export class Failed extends Error {
  readonly requestId: string;
  constructor(cause: unknown, requestId: string) {
    super((cause as Error).message, { cause });
    this.requestId = requestId;
  }
}

export class CannotJoin extends Error {}

/** Services that come with every node; all others are pieces that somebody chose to run there. */
const partsOfANode: ReadonlySet<string> = new Set(['$node', 'node', 'cluster', 'feed']);

const joinMs = 10_000;
const findMs = 3000;
const answerMs = 3000;

/** Joins over NATS. Throws CannotJoin with what to do. */
export async function join(): Promise<Session> {
  const environment = readEnvironment();
  const given = loadSettings(environment, { pieces: [] });
  if (given.nats_url === null) {
    throw new CannotJoin(
      [
        'The REPL joins a cluster over NATS, and NATS_URL is not set.',
        'Give it the NATS_* variables of the nodes, or the file that has them: ENV_FILE=<file> npm run repl.',
        `Without NATS everything runs in one process that nobody can join: use its API, ${given.base_url}/docs, as a platform admin.`,
      ].join('\n'),
    );
  }
  const operator = given.strata_operator ?? userInfo().username;
  // Not the NODE_ID of the environment: on a node's own machine that is the node's.
  const fixed = {
    NODE_ID: `repl-${operator.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 60)}-${process.pid}`,
    LOG_LEVEL: 'silent',
  };
  const { broker } = createNode({
    settings: liveSettings(loadSettings({ ...environment, ...fixed }, { pieces: [] }), fixed, []),
  });
  const started = broker.start().then(() => true);
  if (!(await Promise.race([started, delay(joinMs, false, { ref: false })]))) {
    throw new CannotJoin(
      `NATS does not answer at ${given.nats_url
        .split(',')
        .map((url) => new URL(url).host)
        .join(', ')}. Check NATS_URL.`,
    );
  }

  const caller: Caller = {
    type: 'operator',
    id: operator,
    tenant_id: null,
    roles: [],
    platform_roles: [],
  };
  const own = ownHandlers(broker);
  async function asked<T>(service: string, work: (requestId: string) => Promise<T>): Promise<T> {
    const requestId = randomUUID();
    try {
      // A node that has just joined hears of the others within a second.
      await broker.waitForServices(service, findMs).catch(() => {
        throw new StrataError('service_unavailable', `No node hosts ${service} now.`);
      });
      return await work(requestId);
    } catch (error) {
      throw new Failed(error, requestId);
    }
  }
  const nodes = (): Node[] =>
    (
      broker.registry.getNodeList({ onlyAvailable: true, withServices: true }) as unknown as {
        id: string;
        local: boolean;
        hostname: string;
        services: { name: string }[];
      }[]
    )
      .map(({ id, local, hostname, services: hosted }) => ({
        id,
        self: local,
        hostname,
        services: hosted
          .map(({ name }) => name)
          .filter((name) => !partsOfANode.has(name))
          .sort(),
      }))
      .sort((a, b) => a.id.localeCompare(b.id));
  return {
    operator,
    call: (action, params) =>
      asked(action.split('.')[0]!, (requestId) =>
        callAs(broker, action, params, { caller, requestId }),
      ),
    ask: (nodeID, action, params) =>
      asked('node', (requestId) =>
        callAs(broker, action, params, {
          caller: serviceCaller('repl'),
          requestId,
          nodeID,
          timeout: answerMs,
        }),
      ),
    everywhere: (action, params) =>
      asked('feed', async (requestId) => {
        checkAccess(contracts[action], caller, params);
        checkParams(contracts[action], params);
        return own[action](params, { caller, requestId });
      }),
    nodes,
    leave: () => broker.stop(),
  };
}

/**
 * Nodes of two releases side by side, as in a rolling upgrade: what a contract has gained is sent
 * only to nodes that know it.
 *
 * Each node announces with each of its actions a fingerprint of the parameters that it takes. Where
 * all are the caller's own, as in every cluster of one release, nothing else happens. Where one
 * differs, the caller asks that node once for its schema and judges by it, for each call, which
 * nodes would take it:
 *
 * | Would take the call | The call                                                                                              |
 * |---------------------|-------------------------------------------------------------------------------------------------------|
 * | all nodes           | goes to any, as always                                                                                 |
 * | some                | goes to one of these                                                                                   |
 * | none, also where    | 503 `upgrade_under_way`: nothing is left out of it. A write without its If-Match or `dry_run` would do |
 * | the action is new   | what nobody asked for, and a read without X-Min-Revision answer what is too old                        |
 *
 * A node that announces nothing is from before there was this, and one that does not say what it
 * takes is going away: both are taken for ones that take the call, and say themselves what they do
 * not.
 */
import { hash } from 'node:crypto';
import type { ServiceBroker } from 'moleculer';
import type { TSchema } from 'typebox';
import { contractOf } from '../contracts/index.ts';
import { StrataError } from '../errors.ts';
import { problemsOf } from '../schema/validate.ts';
import { askNode } from './request.ts';

/**
 * How a node is asked what it takes. Its own parameters never change, so that it is asked without
 * asking.
 */
const question = 'cluster.node.takes';
const questionTimeoutMs = 1000;
/**
 * Schemas of other releases that are kept; there are at most as many as actions, of each release
 * that runs.
 */
const mostKept = 2000;

/** What nodes announce with an action, beside Moleculer's own. */
export interface Announced {
  readonly takes?: string;
}

const fingerprints = new Map<string, string>();

/** Of the parameters that the action takes here. */
export function fingerprintOf(action: string): string {
  const known = fingerprints.get(action);
  if (known !== undefined) return known;
  const fingerprint = hash('sha256', schemaOf(action), 'hex').slice(0, 16);
  fingerprints.set(action, fingerprint);
  return fingerprint;
}

/**
 * As JSON, without what is said to readers of the API alone: that changes, and means nothing here.
 */
export const schemaOf = (action: string): string =>
  JSON.stringify(contractOf(action)?.params, (name, value: unknown) =>
    isSaidToReaders(name, value) ? undefined : value,
  );

/** A parameter that has one of these names is an object here. */
function isSaidToReaders(name: string, value: unknown): boolean {
  if (name === 'examples') return Array.isArray(value);
  return (name === 'description' || name === 'title') && typeof value === 'string';
}

export interface Endpoint {
  readonly id: string;
  readonly isAvailable: boolean;
  readonly action: Announced;
}

export function endpointsOf(broker: ServiceBroker, action: string): readonly Endpoint[] {
  const list = broker.registry.getActionEndpoints(action) as unknown;
  return (list as { endpoints: readonly Endpoint[] } | undefined)?.endpoints ?? [];
}

export class Skew {
  readonly #broker: () => ServiceBroker;
  /** By action and fingerprint. Null is a node that does not say. */
  readonly #schemas = new Map<string, TSchema | null>();

  constructor(broker: () => ServiceBroker) {
    this.#broker = broker;
  }

  /**
   * The node that a call has to go to; undefined where any will do. At once where all nodes are of
   * one release. Throws `upgrade_under_way` where no node would take the call, or the one that it
   * has to go to would not.
   */
  nodeFor(
    action: string,
    params: unknown,
    nodeId: string | undefined,
  ): string | undefined | Promise<string | undefined> {
    const contract = contractOf(action);
    if (!contract || action === question) return nodeId;
    const all = endpointsOf(this.#broker(), action);
    if (all.length === 0 && this.#isThere(action.split('.')[0]!))
      throw new StrataError('upgrade_under_way');
    const own = fingerprintOf(action);
    const isOther = ({ action: { takes } }: Endpoint): boolean =>
      takes !== undefined && takes !== own;
    if (!all.some(isOther)) return nodeId;
    return this.#choose(action, params, nodeId, all);
  }

  /**
   * Whether some node hosts the service. Where none of them has an action of it, all are of a
   * release before that.
   */
  #isThere(service: string): boolean {
    return this.#broker().registry.services.services.some(({ name }) => name === service);
  }

  async #choose(
    action: string,
    params: unknown,
    nodeId: string | undefined,
    all: readonly Endpoint[],
  ): Promise<string | undefined> {
    const there = all.filter(
      ({ id, isAvailable }) => isAvailable && (nodeId === undefined || id === nodeId),
    );
    const verdicts = await Promise.all(
      there.map((endpoint) => this.#wouldTake(action, params, endpoint)),
    );
    const taking = there.filter((_each, index) => verdicts[index]);
    // Moleculer says itself that there is no node.
    if (taking.length === there.length) return nodeId;
    if (taking.length === 0) {
      // What is wrong here, too, is told by whoever is asked.
      const isWrong = problemsOf(contractOf(action)!.params, params ?? {}).length > 0;
      if (isWrong) return nodeId;
      throw new StrataError('upgrade_under_way');
    }
    return taking[Math.floor(Math.random() * taking.length)]!.id;
  }

  async #wouldTake(
    action: string,
    params: unknown,
    { id, action: { takes } }: Endpoint,
  ): Promise<boolean> {
    if (takes === undefined || takes === fingerprintOf(action)) return true;
    const name = `${action} ${takes}`;
    let schema = this.#schemas.get(name);
    if (schema === undefined) {
      schema = await this.#ask(action, id);
      if (this.#schemas.size >= mostKept) this.#schemas.clear();
      if (schema !== null) this.#schemas.set(name, schema);
    }
    return schema === null || problemsOf(schema, params ?? {}).length === 0;
  }

  async #ask(action: string, nodeID: string): Promise<TSchema | null> {
    const options = { requestId: 'skew', nodeID, timeout: questionTimeoutMs };
    const said = await askNode(this.#broker(), question, { body: { action } }, options);
    return said?.schema ? (JSON.parse(said.schema) as TSchema) : null;
  }
}

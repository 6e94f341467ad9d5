/**
 * The door for platform services that share NATS with Strata and do not hold SECRET_KEY: they call
 * actions with a credential, as others do over REST, and the gateway calls on for them as whoever
 * the credential belongs to.
 *
 * To them each gateway is a node of Moleculer's protocol in the namespace NATS_NAMESPACE, `strata`
 * by default, which answers the actions of the contracts. It is no part of the nodes' own bus
 * (`shared/bus/sealing.ts`): of a neighbour's packet nothing is trusted but its credential, an
 * API key or access token in `meta.credential`, and nothing that a neighbour registers, emits or
 * answers is ever looked at.
 *
 * These packets are in clear. Whoever may subscribe to `MOL-strata.>` reads credentials and
 * answers, and whoever may publish there can pretend to be a gateway, so NATS has to keep
 * neighbours apart; `docs/operations/trust.md` has the permissions.
 */
import { ServiceBroker } from 'moleculer';
import type { NatsConnection, Subscription } from 'nats';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import { checkAccess, type Caller } from '../shared/access.ts';
import { natsConnectionOf } from '../shared/bus/bus.ts';
import { countIn } from '../shared/concurrency/held-requests.ts';
import { callAs, timeLeft } from '../shared/contract-runtime/request.ts';
import { isRead, type Contract } from '../shared/contracts/contract.ts';
import {
  contractOf,
  contractTable,
  type ActionName,
  type ParamsOf,
} from '../shared/contracts/index.ts';
import { codeOf, errorResponse, invalid, StrataError } from '../shared/errors.ts';
import { isObject } from '../shared/schema/json-pointer.ts';
import { InexactJson } from '../shared/schema/exact-json.ts';
import { parseExactJsonInChunks } from '../shared/schema/exact-json-in-chunks.ts';
import { refusalBy, type Authenticator, type Identity } from './http/authenticate.ts';
import type { HeldAnswers } from './http/held-answer.ts';

export interface NeighboursOptions {
  readonly broker: ServiceBroker;
  readonly authenticator: Authenticator;
  readonly heldAnswers: HeldAnswers;
  readonly log: Logger;
  readonly namespace: string;
  readonly requestTimeoutMs: number;
}

/** What a neighbour asks, as far as it is looked at. */
interface Request {
  /** Its node name, which says where the answer goes and nothing else. */
  readonly sender: string;
  readonly id: string;
  readonly action: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly credential: string | undefined;
  readonly requestId: string;
  readonly timeoutMs: number | undefined;
}

const ver = ServiceBroker.PROTOCOL_VERSION;
/** Well within the 30 s after which Moleculer gives a node up by default. */
const heartbeatMs = 2000;
/**
 * Answers to DISCOVER between two heartbeats. Who got none asks again when it hears the next;
 * anybody on NATS may ask.
 */
const maxInfos = 200;
/** Answered with 429 beyond this, so that neighbours cannot take all of a gateway's memory. */
const maxRunning = 500;
/**
 * Of these, so that one tenant's calls, which may wait for a minute, leave room for others; and so
 * that credentials that anybody made up do, while looking them up is slow.
 */
const maxOfOne = maxRunning / 2;

/** A subject ends with it, so it must not be a wildcard. */
const isNodeName = (value: unknown): value is string =>
  typeof value === 'string' && /^[A-Za-z0-9._-]{1,100}$/.test(value);
const isShortText = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= 128;
/**
 * What needs nobody signed in is for people, over REST, where limits know the client's address;
 * streams and pages are HTTP.
 */
function isOffered({ access, response }: Contract): boolean {
  const isOpen = access.level !== 'internal' && access.level !== 'public';
  return isOpen && response !== 'stream' && response !== 'page' && response !== 'token';
}

/** Undefined without NATS. */
export function openToNeighbours(options: NeighboursOptions) {
  const connection = natsConnectionOf(options.broker);
  return connection && serveNeighbours(connection, options);
}

export type Neighbours = ReturnType<typeof serveNeighbours>;

/** Answers one request, which came as this text. */
type Perform = (text: string, request: Request) => Promise<unknown>;

function performing({
  broker,
  authenticator,
  heldAnswers,
  requestTimeoutMs,
}: NeighboursOptions): Perform {
  async function identityOf({
    credential,
    requestId,
    timeoutMs,
  }: Request): Promise<Identity | undefined> {
    if (credential === undefined) return undefined;
    const headers = { authorization: `Bearer ${credential}` };
    const known = authenticator.known(headers, performance.now());
    if (known) return known;
    const left = timeLeft(boundedTimeout(timeoutMs));
    return inShare('unverified', `Of credentials ${maxOfOne} are being verified already.`, () =>
      authenticator.find(headers, requestId, left),
    );
  }

  const byHolder = new Map<string, number>();

  async function inShare<T>(holder: string, refusal: string, work: () => Promise<T>): Promise<T> {
    if ((byHolder.get(holder) ?? 0) >= maxOfOne) throw new StrataError('rate_limited', refusal);
    countIn(byHolder, holder, 1);
    return work().finally(() => countIn(byHolder, holder, -1));
  }

  const boundedTimeout = (asked: number | undefined): number =>
    Math.min(asked ?? requestTimeoutMs, requestTimeoutMs);

  /** As REST does: first who calls, then whether they may, then what they send. */
  async function perform(request: Request): Promise<unknown> {
    const { action, params, requestId } = request;
    const name = action as ActionName;
    let left = timeLeft(boundedTimeout(request.timeoutMs));
    const ask = (asked: object, caller: Caller): Promise<unknown> =>
      callAs(broker, name, asked as ParamsOf<typeof name>, { caller, requestId, timeout: left });
    const recheck = (): Promise<Caller> => {
      left = timeLeft(boundedTimeout(request.timeoutMs));
      return enter(request);
    };
    const caller = await enter(request);
    const refusal = `Of your tenant's calls ${maxOfOne} run already.`;
    return inShare(String(caller.tenant_id), refusal, () =>
      heldAnswers.answer(ask, { params, caller, recheck }),
    );
  }

  /** Throws where whoever the credential belongs to may not call it. */
  async function enter(request: Request): Promise<Caller> {
    const identity = await identityOf(request);
    if (!identity) throw new StrataError('auth_token_missing');
    const { action, params } = request;
    const contract = contractOf(action);
    if (!contract || !isOffered(contract))
      throw new StrataError(
        'not_found',
        'There is no such action for services without SECRET_KEY.',
      );
    const { caller, stale } = identity;
    if (stale && !isRead(contract))
      throw new StrataError(
        'service_unavailable',
        'Your credential cannot be checked now, so nothing is written. Try again.',
      );
    try {
      checkAccess(contract, caller, params);
    } catch (error) {
      throw refusalBy(stale, error);
    }
    return caller;
  }

  /**
   * Numbers that lose digits, names given twice and the like are refused, as in bodies over REST.
   */
  return async function performExact(text, request) {
    try {
      await parseExactJsonInChunks(text);
    } catch (error) {
      if (error instanceof InexactJson) throw invalid(error.problems, error.message);
      throw error;
    }
    return perform(request);
  };
}

function serveNeighbours(connection: NatsConnection, options: NeighboursOptions) {
  const { broker, log, namespace } = options;
  const { nodeID } = broker;
  const perform = performing(options);
  const prefix = `MOL-${namespace}`;
  const node = infoOfNode();
  const running = new Set<Promise<void>>();
  let infosLeft = maxInfos;

  function publish(command: string, to: string | undefined, payload: object): void {
    const subject = [prefix, command, ...(to === undefined ? [] : [to])].join('.');
    const packet = Buffer.from(JSON.stringify({ ver, sender: nodeID, ...payload }));
    const most = connection.info?.max_payload ?? Infinity;
    if (packet.length > most) throw new StrataError('payload_too_large', tooLarge);
    if (!connection.isClosed() && !connection.isDraining()) connection.publish(subject, packet);
  }

  async function answer(request: Request, work: Promise<unknown>): Promise<void> {
    const { sender, id, action, requestId } = request;
    const began = performance.now();
    let code = 'ok';
    try {
      const data = await work;
      publish('RES', sender, { id, meta: {}, success: true, data });
    } catch (error) {
      code = codeOf(error);
      if (code === 'internal_error')
        log.error({ err: error, request_id: requestId }, 'unexpected error');
      publish('RES', sender, { id, meta: {}, success: false, error: plainError(error, requestId) });
    }
    const ms = Math.round(performance.now() - began);
    const level = code === 'ok' ? 'debug' : 'info';
    log[level]({ request_id: requestId, neighbour: sender, action, code, ms }, 'neighbour request');
  }

  function take(data: Uint8Array): void {
    const text = Buffer.from(data).toString();
    const packet = parsed(text);
    const request = packet && requestOf(packet);
    if (!request) return;
    const isFull = running.size >= maxRunning;
    // Begun here: a call may wait for a minute, and whoever would begin it later keeps its text.
    const work = isFull ? refuseBusy() : perform(text, request);
    const answered = answer(request, work).catch((error: unknown) =>
      log.warn({ err: error }, 'a neighbour could not be answered'),
    );
    running.add(answered);
    void answered.finally(() => running.delete(answered));
  }

  function announce(data: Uint8Array, command: 'INFO' | 'PONG'): void {
    const packet = parsed(Buffer.from(data).toString());
    if (!packet || !isNodeName(packet.sender)) return;
    const { time, id, sender } = packet;
    if (command === 'PONG') {
      if (isShortText(id)) publish('PONG', sender, { time, id, arrived: Date.now() });
      return;
    }
    if (infosLeft === 0) return;
    infosLeft -= 1;
    publish('INFO', sender, node);
  }

  function beat(): void {
    infosLeft = maxInfos;
    publish('HEARTBEAT', undefined, {});
  }

  const listen = (subject: string, use: (data: Uint8Array) => void): Subscription =>
    connection.subscribe(`${prefix}.${subject}`, {
      callback(error, message) {
        // An error is a permission that NATS denies, and has no message. What is thrown here would
        // close the node's connection.
        try {
          if (!error) use(message.data);
        } catch (thrown) {
          log.warn({ err: thrown }, 'a packet of a neighbour could not be read');
        }
      },
    });
  const subscriptions = [
    listen(`REQ.${nodeID}`, take),
    ...['DISCOVER', `DISCOVER.${nodeID}`].map((each) =>
      listen(each, (data) => announce(data, 'INFO')),
    ),
    ...['PING', `PING.${nodeID}`].map((each) => listen(each, (data) => announce(data, 'PONG'))),
  ];
  publish('INFO', undefined, node);
  const heartbeat = setInterval(beat, heartbeatMs).unref();

  return {
    /** Takes no more calls, and lets running ones end. */
    async stop(): Promise<void> {
      clearInterval(heartbeat);
      publish('DISCONNECT', undefined, {});
      for (const subscription of subscriptions) subscription.unsubscribe();
      await Promise.all(running);
    },
  };
}

const tooLarge = 'The answer is larger than NATS carries in one message. Ask over REST.';

async function refuseBusy(): Promise<never> {
  throw new StrataError('rate_limited');
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined for what cannot be answered. */
function requestOf(packet: Record<string, unknown>): Request | undefined {
  const { sender, id, action, params, meta, requestID, timeout } = packet;
  if (!isNodeName(sender) || !isShortText(id) || !isShortText(action)) return undefined;
  const credential = isObject(meta) ? meta.credential : undefined;
  return {
    sender,
    id,
    action,
    params: isObject(params) ? params : {},
    // What is no text fits nothing.
    credential: credential === undefined || typeof credential === 'string' ? credential : '?',
    requestId: isNodeName(requestID) ? requestID : randomUUID(),
    timeoutMs: typeof timeout === 'number' && timeout > 0 ? timeout : undefined,
  };
}

/** An error as Moleculer sends it; neighbours see what clients see over REST. */
function plainError(error: unknown, requestId: string): object {
  const { status, body } = errorResponse(error, requestId);
  const { code, message } = body.detail;
  return {
    name: 'MoleculerError',
    message,
    code: status,
    type: code,
    retryable: status === 503,
    data: { request_id: requestId, ...(body.errors ? { errors: body.errors } : {}) },
  };
}

/** The node that neighbours see: the actions by service, and nothing of the machine. */
function infoOfNode(): object {
  const offered = Object.entries(contractTable).filter(([, contract]) => isOffered(contract));
  const services = Map.groupBy(offered, ([name]) => name.slice(0, name.indexOf('.')));
  return {
    services: [...services].map(([service, actions]) => ({
      name: service,
      fullName: service,
      settings: {},
      metadata: {},
      events: {},
      actions: Object.fromEntries(
        actions.map(([name]) => [name, { name, rawName: name.slice(service.length + 1) }]),
      ),
    })),
    ipList: [],
    hostname: '',
    client: {},
    config: {},
    instanceID: randomUUID(),
    metadata: {},
    seq: 1,
  };
}

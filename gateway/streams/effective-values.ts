/**
 * The effective values of the contexts that are watched on this gateway, as digests by key: what a
 * stream is told of is the difference between what it knows and what holds.
 *
 * All contexts of a tenant are read in one batch, once for each change of the tenant, the platform
 * or the environment, however many streams there are; so they are of one moment, whose revisions
 * are the ids of events.
 *
 * | Danger                                      | Bounded by                                                              |
 * |---------------------------------------------|-------------------------------------------------------------------------|
 * | an answer from before the change that was observed | it is asked for with the least revisions that it must include    |
 * | a heartbeat that confirms what has changed  | sent only with a lease, and while nothing is left to be read or sent     |
 * | a reader who was behind for several changes | knows which digests it was sent last: the difference is sent at once     |
 * | a platform change for many tenants          | so many questions at a time                                             |
 * | a change for many contexts                  | so many streams are sent it in one go                                   |
 * | contexts of large documents                 | fewer are asked for in one question                                     |
 * | many contexts of very many keys             | a tenant has a share of keys, beyond which streams are refused          |
 * | many streams that come back at once         | ask together where context and id are the same, and so many at a time   |
 * | the resolver is away                        | streams stay without heartbeats, and it is asked again every second      |
 */
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import type { ServiceBroker } from 'moleculer';
import { serviceCaller } from '../../shared/access.ts';
import { Semaphore } from '../../shared/concurrency/semaphore.ts';
import { callAs } from '../../shared/contract-runtime/request.ts';
import type { Coherence } from '../../shared/coherence/coherence.ts';
import type { Change } from '../../shared/commits/commit.ts';
import type { Address, Digests } from '../../shared/contracts/effective-config.ts';
import { settingsReplacedKey } from '../../shared/contracts/feed.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { platformScope, tenantScope } from '../../shared/contracts/revision-scopes.ts';
import { codeOf, invalid, isOutage, StrataError } from '../../shared/errors.ts';
import { areSame, idOf, type Frames, type Revisions } from './effective-frames.ts';
import { comment, frame, retryLine, type EventStream, type Subscription } from './event-stream.ts';
import { RightsRound } from './rights.ts';
import { countKeys, mostKeys, tooManyKeys } from './watched-keys.ts';
import type { StreamHub } from './stream-hub.ts';

/** While the resolver is away, it is asked again in this time. */
const outageRetryMs = 1000;
/** Questions of this gateway that are on their way at the same time. */
const maxQuestions = 8;
/** Contexts of one question, unless their documents are too large together. */
const maxContexts = 1000;
/** So many streams are sent what they do not know in one go: each may be of a context of its own. */
const sendsInOneGo = 50;

type Answer = ResultOf<'config-resolver.digests'>;

const none: Revisions = { tenant: 0, platform: 0 };
const nameOf = ({ agent_type, service_id, service_type }: Address): string =>
  JSON.stringify([agent_type, service_id, service_type]);
const highest = (one: Revisions, other: Revisions): Revisions => ({
  tenant: Math.max(one.tenant, other.tenant),
  platform: Math.max(one.platform, other.platform),
});

export class EffectiveValues {
  readonly #broker: ServiceBroker;
  readonly #coherence: Coherence;
  readonly hub: StreamHub;
  /** Of all contexts of a tenant. */
  readonly mostKeys: number;
  /** How often values were asked for. */
  questions = 0;
  /** How often values of the past were. */
  pastQuestions = 0;
  readonly #tenants = new Map<string, WatchedTenant>();
  readonly #semaphore = new Semaphore(maxQuestions);
  /** Of their own, so that a change need not wait for those who come back. */
  readonly #pastSemaphore = new Semaphore(maxQuestions);
  /** Those on their way, which a fleet shares. */
  readonly #pasts = new Map<string, Promise<Digests[] | null>>();

  constructor(broker: ServiceBroker, coherence: Coherence, hub: StreamHub, most = mostKeys) {
    this.#broker = broker;
    this.#coherence = coherence;
    this.hub = hub;
    this.mostKeys = most;
  }

  /** Throws what the resolver says, where the stream cannot begin. */
  async subscribe(
    stream: EventStream,
    tenantId: string,
    address: Address,
    lastEventId: string | undefined,
    frames: Frames,
  ): Promise<void> {
    const past = lastEventId === undefined ? undefined : this.#past(tenantId, address, lastEventId);
    const tenant = this.#tenantOf(tenantId);
    const [known] = await Promise.all([past, tenant.join(stream, address, frames)]);
    if (lastEventId !== undefined) tenant.resume(stream, lastEventId, known ?? null);
  }

  onChange({ scope, revision, keys }: Pick<Change, 'scope' | 'revision' | 'keys'>): void {
    if (this.#tenants.size === 0) return;
    if (keys.includes(settingsReplacedKey)) this.refresh();
    if (scope === platformScope)
      for (const tenant of this.#tenants.values()) tenant.onChange({ ...none, platform: revision });
    const tenantId = scope.startsWith(tenantScope('')) ? scope.slice(tenantScope('').length) : '';
    this.#tenants.get(tenantId)?.onChange({ ...none, tenant: revision });
  }

  /** The environment may have changed. */
  refresh(): void {
    for (const tenant of this.#tenants.values()) tenant.refresh();
  }

  /** The database may have gone back, so that what was sent may never have been. */
  reset(): void {
    for (const tenant of this.#tenants.values()) tenant.reset();
  }

  hasLease(): boolean {
    return this.#coherence.hasLease();
  }

  ask(tenantId: string, contexts: Address[], least: Revisions): Promise<Answer> {
    return this.#semaphore.run(() => {
      this.questions += 1;
      const params = { tenant_id: tenantId, contexts, min_revision: idOf(least) };
      return callAs(this.#broker, 'config-resolver.digests', params, this.#asGateway());
    });
  }

  /**
   * What the context was then, by each environment that it may have had; null where that cannot be
   * known.
   */
  #past(tenantId: string, address: Address, id: string): Promise<Digests[] | null> {
    const name = JSON.stringify([tenantId, nameOf(address), id]);
    const asked = this.#pasts.get(name);
    if (asked) return asked;
    const asking = this.#pastSemaphore
      .run(() => this.#askPast(tenantId, address, id))
      .finally(() => this.#pasts.delete(name));
    this.#pasts.set(name, asking);
    return asking;
  }

  async #askPast(tenantId: string, address: Address, id: string): Promise<Digests[] | null> {
    this.pastQuestions += 1;
    const [tenant, platform] = id.split('.').map(Number) as [number, number];
    const { states } = await callAs(
      this.#broker,
      'config-resolver.past-digests',
      { tenant_id: tenantId, ...address, tenant, platform },
      this.#asGateway(),
    );
    return states;
  }

  #asGateway() {
    return { caller: serviceCaller(this.#broker.nodeID), requestId: 'watch' };
  }

  #tenantOf(id: string): WatchedTenant {
    const known = this.#tenants.get(id);
    if (known) return known;
    const made = new WatchedTenant(id, this, () => {
      if (this.#tenants.get(id) === made) this.#tenants.delete(id);
    });
    this.#tenants.set(id, made);
    return made;
  }
}

/** One context, and the streams that watch it. */
interface Context {
  readonly name: string;
  readonly address: Address;
  /** What holds, as far as it is known; undefined before the first answer. */
  digests: Digests | undefined;
  readonly streams: Set<EffectiveSubscription>;
  /** Who waits for the first answer. */
  readonly waiting: ((problem?: unknown) => void)[];
}

class WatchedTenant {
  readonly #id: string;
  readonly #values: EffectiveValues;
  readonly #onUnused: () => void;
  readonly #contexts = new Map<string, Context>();
  readonly #subscriptions = new Map<EventStream, EffectiveSubscription>();
  /** The moment that all digests are of. */
  revision = none;
  /** On which sides of rollouts the tenant is then; undefined where there are none. */
  rollouts: Answer['rollouts'];
  #environment = '';
  /** The least revisions that an answer must include. */
  #least = none;
  /** Contexts of one question. */
  #atOnce = maxContexts;
  /** Something has changed since the digests were asked for. */
  #isStale = false;
  /** Every stream has to be told to read everything again. */
  #isReset = false;
  #isReading = false;
  #heartbeat: { readonly id: string; readonly frame: Buffer } | undefined;

  constructor(id: string, values: EffectiveValues, onUnused: () => void) {
    this.#id = id;
    this.#values = values;
    this.#onUnused = onUnused;
  }

  /**
   * Resolves once the context's values are known as they were after every write that was answered
   * before the call.
   */
  async join(stream: EventStream, address: Address, frames: Frames): Promise<void> {
    const name = nameOf(address);
    const context = this.#contexts.get(name) ?? {
      name,
      address,
      digests: undefined,
      streams: new Set(),
      waiting: [],
    };
    this.#contexts.set(name, context);
    const subscription = new EffectiveSubscription(stream, this, context, frames);
    context.streams.add(subscription);
    this.#subscriptions.set(stream, subscription);
    stream.subscribe(subscription);
    if (!this.#values.hasLease()) this.#isStale = true;
    if (context.digests === undefined || this.#isStale || this.#isReading) {
      await new Promise<void>((resolve, reject) => {
        context.waiting.push((problem) => {
          if (problem === undefined) resolve();
          else reject(problem as Error);
        });
        void this.#read();
      });
    }
  }

  /** What the stream's client knew when it left. */
  resume(stream: EventStream, lastEventId: string, known: Digests[] | null): void {
    this.#subscriptions.get(stream)?.resumeFrom(lastEventId, known);
  }

  onChange(revision: Revisions): void {
    // A change is observed twice: what has been asked for is asked for no more.
    const known = highest(this.#least, this.revision);
    this.#least = highest(this.#least, revision);
    const isNews = revision.tenant > known.tenant || revision.platform > known.platform;
    if (isNews) this.refresh();
  }

  refresh(): void {
    this.#isStale = true;
    void this.#read();
  }

  reset(): void {
    this.#least = none;
    this.#isReset = true;
    this.refresh();
  }

  leave(subscription: EffectiveSubscription): void {
    const { context, stream } = subscription;
    context.streams.delete(subscription);
    this.#subscriptions.delete(stream);
    if (context.streams.size === 0) {
      if (this.#contexts.get(context.name) === context) this.#contexts.delete(context.name);
      settle(context);
    }
    if (this.#contexts.size === 0) this.#onUnused();
  }

  /** One question at a time, and another one as long as something has changed meanwhile. */
  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#contexts.size > 0) {
        const unknown = [...this.#contexts.values()].filter(({ digests }) => !digests);
        const isAll = this.#isStale;
        if (!isAll && unknown.length === 0) break;
        this.#isStale = false;
        const failure = await this.#readOnce(isAll ? [...this.#contexts.values()] : unknown, isAll);
        if (failure === undefined) continue;
        this.#isStale ||= isAll;
        if (this.#fail(failure)) await delay(outageRetryMs);
      }
    } finally {
      this.#isReading = false;
    }
    for (const context of this.#contexts.values()) settle(context);
  }

  /** Resolves to what went wrong, if anything did. */
  async #readOnce(contexts: readonly Context[], isAll: boolean): Promise<unknown> {
    const isReset = this.#isReset;
    try {
      if (isAll) this.#isReset = false;
      const least = isReset ? this.#least : highest(this.#least, this.revision);
      const others = isAll ? 0 : countKeys(this.#contexts.values());
      const answers = await this.#ask(contexts, others, least);
      const [first] = answers;
      if (!first) {
        this.#take(contexts, [], others);
        return undefined;
      }
      const isOld =
        first.revision.tenant < least.tenant || first.revision.platform < least.platform;
      if (isOld) return new StrataError('service_unavailable');
      const isOneMoment = answers.every((answer) => isSameMoment(answer, first));
      const isSame = isSameMoment(first, {
        revision: this.revision,
        environment: this.#environment,
      });
      if (!isOneMoment || (!isAll && !isSame)) {
        this.#readAgain(isReset && isAll);
        return undefined;
      }
      this.revision = first.revision;
      this.rollouts = first.rollouts;
      this.#environment = first.environment;
      const found = answers.flatMap((answer) => answer.contexts);
      this.#take(contexts, found, others);
      if (isReset && isAll)
        for (const { streams } of this.#contexts.values())
          for (const subscription of streams) subscription.forget();
      // While there is more to be read, what has been read is told already.
      await this.#deliver();
      return undefined;
    } catch (error) {
      const asked = Math.min(this.#atOnce, contexts.length);
      if (codeOf(error) !== 'payload_too_large' || asked === 1) return error;
      this.#atOnce = Math.ceil(asked / 2);
      if (isAll) this.#readAgain(isReset);
      return undefined;
    }
  }

  /** So many at a time, as long as their keys are not more than the tenant's share. */
  async #ask(contexts: readonly Context[], others: number, least: Revisions): Promise<Answer[]> {
    const answers: Answer[] = [];
    let keys = others;
    let asked = 0;
    while (asked < contexts.length && keys <= this.#values.mostKeys) {
      const next = contexts.slice(asked, asked + this.#atOnce).map(({ address }) => address);
      const answer = await this.#values.ask(this.#id, next, least);
      keys += countKeys(answer.contexts);
      asked += next.length;
      answers.push(answer);
    }
    return answers;
  }

  /** Those beyond the tenant's share are refused, the last to come first. */
  #take(contexts: readonly Context[], found: Answer['contexts'], others: number): void {
    const most = this.#values.mostKeys;
    let keys = others;
    for (const [index, context] of contexts.entries()) {
      const answer = keys > most ? undefined : found[index];
      if (answer) take(context, answer);
      else refuse(context, tooManyKeys(most));
      if (answer) keys += countKeys([answer]);
    }
  }

  #readAgain(isReset: boolean): void {
    this.#isStale = true;
    this.#isReset ||= isReset;
  }

  /**
   * Returns whether it is worth trying again. Who waits to begin is told at once, and may come
   * again.
   */
  #fail(error: unknown): boolean {
    for (const context of this.#contexts.values()) settle(context, error);
    if (isOutage(error)) return true;
    const closed = frame('closed', { code: codeOf(error) });
    for (const stream of this.#subscriptions.keys()) stream.end(closed);
    return false;
  }

  /** What each does not know, with room for other work in between. */
  async #deliver(): Promise<void> {
    const subscriptions = [...this.#contexts.values()].flatMap(({ streams }) => [...streams]);
    for (let from = 0; from < subscriptions.length; from += sendsInOneGo) {
      if (from > 0) await turn();
      const round = new RightsRound();
      for (const each of subscriptions.slice(from, from + sendsInOneGo)) this.notify(each, round);
    }
  }

  /** Sends what the stream does not know, where it may have it and has room. */
  notify(subscription: EffectiveSubscription, round = new RightsRound()): void {
    const { stream } = subscription;
    if (subscription.isCurrent || !stream.isReady) return;
    this.#values.hub.whileHeld(stream, round, () => subscription.send());
  }

  /** What there is to be said when all is said; a comment alone while that cannot be known. */
  heartbeat(): Buffer {
    if (this.#isStale || this.#isReading || !this.#values.hasLease()) return comment;
    const id = idOf(this.revision);
    if (this.#heartbeat?.id !== id)
      this.#heartbeat = { id, frame: frame('heartbeat', { revision: this.revision }, id) };
    return this.#heartbeat.frame;
  }
}

const isSameMoment = (
  one: Pick<Answer, 'revision' | 'environment'>,
  other: Pick<Answer, 'revision' | 'environment'>,
): boolean => idOf(one.revision) === idOf(other.revision) && one.environment === other.environment;

/** Equal digests stay the same object, by which streams know that they have been told. */
function take(context: Context, { digests, problem }: Answer['contexts'][number]): void {
  if (problem !== undefined) {
    refuse(context, invalid([problem]));
    return;
  }
  const before = context.digests;
  if (before && areSame(before, digests!)) return;
  context.digests = digests!;
}

function refuse(context: Context, problem: StrataError): void {
  settle(context, problem);
  const closed = frame('closed', { code: codeOf(problem) });
  for (const { stream } of context.streams) stream.end(closed);
}

function settle({ waiting }: Context, problem?: unknown): void {
  for (const done of waiting.splice(0)) done(problem);
}

class EffectiveSubscription implements Subscription {
  readonly stream: EventStream;
  readonly context: Context;
  readonly #tenant: WatchedTenant;
  readonly #frames: Frames;
  /** What the client has been told of; undefined where it has to read everything again. */
  #sent: readonly Digests[] | undefined;
  #lastEventId: string | undefined;
  #hasBegun = false;

  constructor(stream: EventStream, tenant: WatchedTenant, context: Context, frames: Frames) {
    this.stream = stream;
    this.#tenant = tenant;
    this.context = context;
    this.#frames = frames;
  }

  get isCurrent(): boolean {
    return this.#sent?.length === 1 && this.#sent[0] === this.context.digests;
  }

  resumeFrom(lastEventId: string, known: Digests[] | null): void {
    this.#lastEventId = lastEventId;
    this.#sent = known ?? undefined;
  }

  /** The client has to be told to read everything again. */
  forget(): void {
    if (this.#hasBegun) this.#sent = undefined;
  }

  begin(): void {
    this.#hasBegun = true;
    const { revision } = this.#tenant;
    if (this.#lastEventId === undefined && this.#frames.isReadAfterwards)
      this.#sent = [this.context.digests!];
    const ready = this.#frames.ready(revision, this.#lastEventId ?? idOf(revision));
    this.stream.write(Buffer.concat([retryLine(), ready]));
    this.goOn();
  }

  goOn(): void {
    this.#tenant.notify(this);
  }

  send(): void {
    const { revision } = this.#tenant;
    const current = this.context.digests!;
    if (this.#sent === undefined) this.stream.write(this.#frames.reset(revision));
    else {
      const changed = this.#frames.changed(this.#sent, current, this.#tenant);
      if (changed) this.stream.write(changed);
    }
    this.#sent = [current];
  }

  heartbeat(): void {
    if (this.isCurrent) this.stream.write(this.#frames.heartbeat(this.#tenant.heartbeat()));
    else this.goOn();
  }

  leave(): void {
    this.#tenant.leave(this);
  }
}

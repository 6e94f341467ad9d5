/**
 * What somebody who is signed in has to know of themselves: that their session ended, and that
 * their membership of a tenant is another one, or is no more.
 *
 * It has no revision to resume from: whoever comes back asks who they are (`GET /auth/me`, or by
 * refreshing).
 *
 * | Danger                                | Bounded by                                                               |
 * |---------------------------------------|--------------------------------------------------------------------------|
 * | a change of somebody else's is told   | only keys of this person's memberships are looked for                    |
 * | changes that were missed              | told of as of no tenant in particular                                    |
 * | a change that is observed twice       | it is sent once, unless very many memberships change at the same time |
 * | a reader without room                 | what was not told is kept once for each tenant, and told when there is    |
 */
import { LRUCache } from 'lru-cache';
import { upTo } from '../../shared/concurrency/growing-cache.ts';
import type { Change } from '../../shared/commits/commit.ts';
import { memberOfKey } from '../../shared/contracts/members.ts';
import { comment, frame, retryLine, type EventStream, type Subscription } from './event-stream.ts';
import { RightsRound } from './rights.ts';
import type { StreamHub } from './stream-hub.ts';

/** A comment is sent with every so many heartbeats. */
const beatsPerComment = 3;
/** A change is observed again within seconds: so many memberships may change in these. */
const maxObserved = 10_000;

export class OwnSessions {
  readonly #hub: StreamHub;
  readonly #byUser = new Map<string, Set<SessionSubscription>>();
  /** The revision of the last change that was observed, by the membership's cache key. */
  readonly #observed = new LRUCache<string, number>(upTo(maxObserved));

  constructor(hub: StreamHub) {
    this.#hub = hub;
  }

  subscribe(stream: EventStream): void {
    const { id } = stream.request.caller;
    const own = this.#byUser.get(id) ?? new Set();
    this.#byUser.set(id, own);
    const subscription: SessionSubscription = new SessionSubscription(stream, this.#hub, () => {
      own.delete(subscription);
      if (own.size === 0) this.#byUser.delete(id);
    });
    own.add(subscription);
    stream.subscribe(subscription);
  }

  onChange({ revision, keys }: Change): void {
    for (const key of keys) {
      const member = memberOfKey(key);
      if (!member || revision <= (this.#observed.get(key) ?? 0)) continue;
      this.#observed.set(key, revision);
      for (const subscription of this.#byUser.get(member.user_id) ?? [])
        subscription.tell(member.tenant_id);
    }
  }

  /** Changes were missed that nobody can tell any more. */
  reset(): void {
    this.#observed.clear();
    for (const own of this.#byUser.values())
      for (const subscription of own) subscription.tell(null);
  }
}

class SessionSubscription implements Subscription {
  readonly #stream: EventStream;
  readonly #hub: StreamHub;
  readonly #onLeave: () => void;
  /** Tenants that are to be told of. */
  readonly #pending = new Set<string | null>();

  constructor(stream: EventStream, hub: StreamHub, onLeave: () => void) {
    this.#stream = stream;
    this.#hub = hub;
    this.#onLeave = onLeave;
  }

  /** Null stands for any tenant. */
  tell(tenantId: string | null): void {
    this.#pending.add(tenantId);
    this.goOn();
  }

  begin(): void {
    const { session_id: id } = this.#stream.request.caller;
    const ready = frame('ready', { session_id: id });
    this.#stream.write(Buffer.concat([retryLine(), ready]));
    this.goOn();
  }

  goOn(): void {
    if (this.#pending.size === 0 || !this.#stream.isReady) return;
    this.#hub.whileHeld(this.#stream, new RightsRound(), () => {
      const frames = [...this.#pending].map((tenant_id) =>
        frame('memberships.changed', { tenant_id }),
      );
      this.#pending.clear();
      if (frames.length > 0) this.#stream.write(Buffer.concat(frames));
    });
  }

  heartbeat(beat: number): void {
    if (beat % beatsPerComment === 0) this.#stream.write(comment);
  }

  /** An access token that has only run out is no end of the session. */
  lastWord(code: string): Buffer | undefined {
    return code === 'auth_session_revoked' ? frame('session.ended', { code }) : undefined;
  }

  leave(): void {
    this.#onLeave();
  }
}

/**
 * The hash chain of audit events: nobody changes, removes or inserts an event without breaking it.
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Static } from 'typebox';
import type { AuditFacts } from '../contracts/audit.ts';

type AuditEventFacts = Static<typeof AuditFacts>;

/** The hash before the first event of a chain. */
export const genesis = '0'.repeat(64);

/**
 * SHA-256 (hex) over the canonical JSON (RFC 8785) of the event, its number in the chain and the
 * hash before it.
 */
export const eventHash = (event: AuditEventFacts, seq: number, previous: string): string =>
  createHash('sha256')
    .update(canonicalize({ ...event, seq, previous })!)
    .digest('hex');

export const platformChain = 'platform';

/**
 * The name of the chain that an event belongs to: one per tenant, by its id, and one for the
 * platform.
 */
export const auditChainOf = (event: { readonly tenant_id: string | null }): string =>
  event.tenant_id ?? platformChain;

/** Whose events a chain has: null for the platform's. */
export const tenantOfChain = (chain: string): string | null =>
  chain === platformChain ? null : chain;

/** The event that attests what purged events were; its target is the document. */
export const eventsPurgedAction = 'audit.events_purged';

/** What a later event of the chain tells of a purged one. */
export interface Attested {
  readonly hash: string;
  /** Of the event before it. */
  readonly previous: string;
  /** Of what is left of the event, in its place. */
  readonly left: string;
}

/** What is left of an event's payload when it is purged. */
export function purgedPayload(payload: object): object {
  const { changes: _gone, ...left } = payload as { changes?: unknown };
  return { ...left, purged: true };
}

/** An event as it is recorded. */
export interface Link {
  readonly seq: number;
  readonly hash: string;
  readonly event: AuditEventFacts;
  /** Of an event whose changes were purged, so that its hash cannot be computed from it. */
  readonly attested?: Attested;
}
/** How far a chain is known to hold. */
export interface Position {
  readonly seq: number;
  readonly hash: string;
}
export interface Break {
  readonly seq: number;
  readonly id: string | null;
  readonly problem: string;
}

function holds({ event, seq, hash, attested }: Link, previous: string): boolean {
  const computed = eventHash(event, seq, previous);
  if (!attested) return computed === hash;
  return attested.hash === hash && attested.previous === previous && attested.left === computed;
}

/**
 * Checks links in order, from a position that is known to hold. Returns how far they hold, and the
 * first break where there is one.
 */
export function checkLinks(
  links: Iterable<Link>,
  from: Position,
): Position & { readonly broken?: Break } {
  let { seq, hash } = from;
  for (const link of links) {
    if (link.seq !== seq + 1)
      return { seq, hash, broken: { seq: seq + 1, id: null, problem: 'the event is missing' } };
    if (!holds(link, hash)) {
      const problem = 'the event is not what was recorded, or the previous one was changed';
      return { seq, hash, broken: { seq: link.seq, id: link.event.id, problem } };
    }
    ({ seq, hash } = link);
  }
  return { seq, hash };
}

/** An event as it is exported: with its place, and who its actor was called where that is said. */
export type ExportedEvent = AuditEventFacts &
  Position & { readonly previous: string; readonly actor: { readonly name?: string | null } };

/**
 * An export of a chain, event by event, checked by whoever has it and nobody else. It may begin
 * after a cut: where that was follows from what comes later, since each hash is over the previous.
 */
export class ExportedChain {
  readonly #chain: string;
  /** Where the first event says that it begins. */
  begin: Position | undefined;
  reached: Position = { seq: 0, hash: genesis };
  broken: Break | undefined;
  /** Purged events of which no later one has told what they were. */
  readonly #purged = new Map<number, Attested>();

  constructor(chain: string) {
    this.#chain = chain;
  }

  /** Answers whether the chain still holds. */
  add({ seq, hash, previous, ...event }: ExportedEvent): boolean {
    if (this.broken) return false;
    const { type, id } = event.actor;
    const facts = { ...event, actor: { type, id } };
    if (auditChainOf(facts) !== this.#chain) {
      this.broken = { seq, id: event.id, problem: 'the event is of another chain' };
      return false;
    }
    if (!this.begin) {
      this.begin = seq === 1 ? this.reached : { seq: seq - 1, hash: previous };
      this.reached = this.begin;
    }
    const attested = this.#attestedOf(facts, seq, hash);
    const { broken, ...reached } = checkLinks(
      [{ seq, hash, event: facts, ...(attested && { attested }) }],
      this.reached,
    );
    this.reached = reached;
    this.broken = broken;
    if (!broken && facts.action === eventsPurgedAction) this.#attest(facts.payload);
    return !broken;
  }

  /** The first break, also of a purged event that nothing attests. */
  end(): Break | undefined {
    const [first] = this.#purged.keys();
    if (this.broken || first === undefined) return this.broken;
    return { seq: first, id: null, problem: 'the event was purged, and no later one attests it' };
  }

  /** Of a purged event, as it is: whether that is true a later event says. */
  #attestedOf(facts: AuditEventFacts, seq: number, hash: string): Attested | undefined {
    const isPurged = (facts.payload as { purged?: unknown } | null)?.purged === true;
    if (this.#chain !== platformChain || !isPurged) return undefined;
    const previous = this.reached.hash;
    const attested = { hash, previous, left: eventHash(facts, seq, previous) };
    this.#purged.set(seq, attested);
    return attested;
  }

  #attest(payload: unknown): void {
    const { links } = payload as { links: Readonly<Record<string, Attested>> };
    for (const [seq, { hash, previous, left }] of Object.entries(links)) {
      const purged = this.#purged.get(Number(seq));
      const isThat = purged?.hash === hash && purged.previous === previous && purged.left === left;
      if (isThat) this.#purged.delete(Number(seq));
    }
  }
}

import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { AuditEventFacts } from '../../../shared/commits/commit.ts';

/** The hash before the first event of a chain. */
export const genesis = '0'.repeat(64);

/** SHA-256 (hex) over the canonical JSON (RFC 8785) of the event, its place in the chain and the hash before it. */
export const eventHash = (event: AuditEventFacts, seq: number, previous: string): string =>
  createHash('sha256')
    .update(canonicalize({ ...event, seq, previous })!)
    .digest('hex');

/** A chain per tenant, and one for the platform. */
export const chainOf = (event: { readonly tenant_id: string | null }): string =>
  event.tenant_id ?? 'platform';

export interface Link {
  readonly seq: number;
  readonly hash: string;
  readonly event: AuditEventFacts;
}
export interface Break {
  readonly seq: number;
  readonly id: string | null;
  readonly problem: string;
}

/** Checks links in order from a known place; the first that does not hold, or where the chain ends. */
export function checkLinks(
  links: Iterable<Link>,
  from: { seq: number; hash: string },
): { broken?: Break; seq: number; hash: string } {
  let { seq, hash } = from;
  for (const link of links) {
    if (link.seq !== seq + 1)
      return { broken: { seq: seq + 1, id: null, problem: 'the event is missing' }, seq, hash };
    if (eventHash(link.event, link.seq, hash) !== link.hash) {
      return {
        broken: {
          seq: link.seq,
          id: link.event.id,
          problem: 'the event is not what was recorded, or the one before it was changed',
        },
        seq,
        hash,
      };
    }
    ({ seq, hash } = link);
  }
  return { seq, hash };
}

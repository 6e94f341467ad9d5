/**
 * What notices are sent by, opened once for all notices of an approval: what is sealed names each of
 * its approvers.
 */
import { LRUCache } from 'lru-cache';
import type { FrozenConfig } from '../rules/frozen-config.ts';
import type { Claim } from '../stores/claims.ts';

/** Of a FrozenConfig, without the people. */
export type SentBy = Pick<FrozenConfig, 'config' | 'revision'>;

/** Throws where the key that it was sealed with is not known any more. */
export type OpenSentBy = () => SentBy;

/** Each claim names them all. */
const mostApprovals = 100;
const mostCharacters = 16 * 1024 * 1024;

export class OpenedConfigs {
  readonly #open: (sealed: string, tenantId: string) => FrozenConfig;
  readonly #byApproval = new LRUCache<string, SentBy>({
    max: mostApprovals,
    maxSize: mostCharacters,
    sizeCalculation: (sentBy) => JSON.stringify(sentBy).length,
  });

  constructor(open: (sealed: string, tenantId: string) => FrozenConfig) {
    this.#open = open;
  }

  /** Approvals of which no claim has to bring it. */
  snapshot(): ReadonlyMap<string, SentBy> {
    return new Map(this.#byApproval.entries());
  }

  /** Of each claim, beside what was there when they were asked for. */
  of(claims: readonly Claim[], before: ReadonlyMap<string, SentBy>): Map<Claim, OpenSentBy> {
    const brought = new Map<string, OpenSentBy>();
    for (const claim of claims) {
      if (claim.approval_id === null || claim.frozen === null) continue;
      brought.set(
        claim.approval_id,
        this.#opened(claim.approval_id, claim.frozen, claim.tenant_id),
      );
    }
    return new Map(
      claims.map((claim) => {
        const { approval_id: id, frozen, tenant_id: tenantId } = claim;
        if (id === null) return [claim, () => this.#open(frozen!, tenantId)];
        // As the one that was used last it is kept longest.
        this.#byApproval.get(id);
        return [claim, brought.get(id) ?? (() => before.get(id)!)];
      }),
    );
  }

  #opened(approvalId: string, sealed: string, tenantId: string): OpenSentBy {
    try {
      const { config, revision } = this.#open(sealed, tenantId);
      const sentBy = { config, revision };
      this.#byApproval.set(approvalId, sentBy);
      return () => sentBy;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }
}

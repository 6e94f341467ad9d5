/** Whose tokens stand for a service account. */
import { randomUUID } from 'node:crypto';
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { commitChange, readSnapshot, type EventDraft } from '../../../../shared/commits/commit.ts';
import type { TrustRule } from '../../../../shared/contracts/auth-workload.ts';
import type { AccountAddress } from '../../../../shared/contracts/service-accounts.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { invalid } from '../../../../shared/errors.ts';
import type { AuthParts } from '../../parts.ts';
import { ownSessionOf } from '../../sessions/rules/own-session.ts';
import { requireOpenSession } from '../../sessions/stores/sessions.ts';
import { commitByAdministrator } from '../../stores/by-administrators.ts';
import { WorkloadTrustEntity } from '../../schema.ts';
import { addressOf, nameOf, problemsOfRules, storedRules } from '../rules/trust-rules.ts';
import { findIssuers, findTrust, requireRead } from '../stores/trust.ts';

/**
 * For people: which rule it was that let a token in. Of a character that the cut is in nothing is
 * left that could not be stored.
 */
const labelOf = ({ issuer, subject }: TrustRule): string =>
  `${new URL(issuer).host} ${subject ?? ''}`.trim().slice(0, 100).toWellFormed();

/** Of those that one list has and the other has not. */
const onlyIn = (some: readonly TrustRule[], others: readonly TrustRule[]): TrustRule[] =>
  some.filter(({ id }) => !others.some((each) => each.id === id));

const eventAbout = (
  what: 'changed' | 'removed',
  { tenant_id, account_id: target }: AccountAddress,
  payload: object,
): EventDraft => ({ action: `auth.workload_trust_${what}`, tenant_id, target, payload });

export function trustActions({ db, settings }: AuthParts) {
  return {
    async 'auth.trust.get'(address, { call }) {
      // Throws 404 where the tenant has no such account.
      await call('tenant-config.service-accounts.resolve', address);
      const { rules, revision } = await findTrust(db.manager, address);
      return { rules, revision };
    },

    async 'auth.trust.put'({ body, ...address }, request) {
      const account = await request.call('tenant-config.service-accounts.resolve', address);
      const base = nameOf(settings().base_url);
      const { tenant_id: tenantId } = address;
      return commitByAdministrator(db, request, tenantId, async (manager, at, revision) => {
        await requireOpenSession(manager, ownSessionOf(request.caller));
        const { issuers } = await findIssuers(manager);
        const names = new Set(issuers.map(({ issuer }) => issuer));
        const problems = problemsOfRules(body.rules, { base, account, issuers: names });
        if (problems.length > 0) throw invalid(problems);
        const before = await findTrust(manager, address);
        requireRead(body.revision, before.revision);
        const rules = storedRules(body.rules, before.rules, {
          audience: addressOf(base, address),
          by: request.caller.id,
          at,
          newId: randomUUID,
        });
        await manager.save(WorkloadTrustEntity, { ...address, revision, rules });
        const payload = {
          added: onlyIn(rules, before.rules),
          removed: onlyIn(before.rules, rules),
        };
        return {
          result: { rules, revision },
          keys: request.keys,
          events: [eventAbout('changed', address, payload)],
        };
      });
    },

    async 'auth.trust.delete'(address, request) {
      await request.call('tenant-config.service-accounts.resolve', address);
      await commitChange(db, request, authScope, async (manager) => {
        const { rules: removed } = await findTrust(manager, address);
        await manager.delete(WorkloadTrustEntity, address);
        return {
          result: undefined,
          keys: request.keys,
          events: [eventAbout('removed', address, { removed })],
        };
      });
      return null;
    },

    'auth.trust.resolve': (address) =>
      readSnapshot(db, authScope, async (manager) => {
        const { rules } = (await manager.findOneBy(WorkloadTrustEntity, address)) ?? { rules: [] };
        return rules.map((rule) => ({
          id: rule.id,
          label: labelOf(rule),
          made_by: rule.made_by,
          roles: rule.roles,
          ...(rule.narrowed_to !== undefined && { narrowed_to: rule.narrowed_to }),
        }));
      }),
  } satisfies Handlers;
}

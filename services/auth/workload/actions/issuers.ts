/** Which issuers of workload tokens the rules of tenants may name: the platform's to say. */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Handlers } from '../../../../shared/contract-runtime/request.ts';
import { readSnapshot } from '../../../../shared/commits/commit.ts';
import { authScope } from '../../../../shared/contracts/revision-scopes.ts';
import { invalid } from '../../../../shared/errors.ts';
import type { AuthParts } from '../../parts.ts';
import { WorkloadIssuersEntity } from '../../schema.ts';
import { commitByPlatformAdministrator } from '../../stores/by-administrators.ts';
import { issuerProblems } from '../rules/issuers.ts';
import { findIssuers, requireRead } from '../stores/trust.ts';

const named = (issuers: readonly { readonly issuer: string }[]): string[] =>
  issuers.map(({ issuer }) => issuer);

export const workloadIssuerActions = ({ db, settings, guard }: AuthParts) =>
  ({
    async 'auth.workload-issuers.get'() {
      const { issuers, revision } = await findIssuers(db.manager);
      return { issuers, revision };
    },

    async 'auth.workload-issuers.put'({ body }, request) {
      const problems = await issuerProblems(body.issuers, guard);
      if (problems.length > 0) throw invalid(problems);
      return commitByPlatformAdministrator(
        db,
        request,
        settings(),
        async (manager, _at, revision) => {
          const before = await findIssuers(manager);
          requireRead(body.revision, before.revision);
          // With other keys it is another one, whose id no token names that was given before.
          const issuers = body.issuers.map((each) => {
            const same = before.issuers.find(({ id: _id, ...known }) =>
              isDeepStrictEqual(known, each),
            );
            return same ?? { ...each, id: randomUUID() };
          });
          await manager.save(WorkloadIssuersEntity, { id: 1, revision, issuers });
          return {
            result: { issuers, revision },
            keys: request.keys,
            events: [
              {
                action: 'auth.workload_issuers_changed',
                tenant_id: null,
                target: null,
                payload: { before: named(before.issuers), after: named(issuers) },
              },
            ],
          };
        },
      );
    },

    'auth.workload-issuers.resolve': () =>
      readSnapshot(db, authScope, async (manager) => {
        const { issuers } = await findIssuers(manager);
        return issuers.map(({ id }) => id);
      }),
  }) satisfies Handlers;

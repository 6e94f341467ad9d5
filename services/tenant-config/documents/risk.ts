/** A tenant's risk limits: one document, there from the tenant's creation. */
import type { BoundSet } from '../../../shared/bounds/bounds-in-force.ts';
import { RiskConfig } from '../../../shared/contracts/risk.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import { tightensRisk } from '../../../shared/documents/tightening.ts';
import { isObject } from '../../../shared/schema/json-pointer.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { checkRisk, seedRisk } from '../rules/risk.ts';
import { boundViolations, valuesOfRisk } from '../../../shared/bounds/placed-values.ts';
import { RiskEntity } from '../schema.ts';
import { boundsForValues } from '../stores/bounds.ts';
import { managedTypes, type ManagedTypes } from '../stores/managed-types.ts';
import { inTable } from './tenant-document.ts';

interface Context {
  readonly seed: RiskConfig;
  readonly types: ManagedTypes;
  readonly sets: readonly BoundSet[];
}

export function riskKind(
  settings: () => Settings,
): DocumentKind<TenantAddress, RiskConfig, Context> {
  return {
    ...inTable(RiskEntity, {
      auditName: 'risk',
      configType: 'tenant_risk_config',
      actions: 'tenant-config.risk',
    }),
    // A tenant always has limits, also after an undo of what seeded them.
    isAlwaysThere: true,
    schema: RiskConfig,
    async prepare({ tenant_id }, request) {
      const [types, sets] = await Promise.all([
        managedTypes(request),
        boundsForValues(tenant_id, request),
      ]);
      return { types, sets, seed: seedRisk(settings(), types) };
    },
    /** What a PUT leaves out becomes what a new tenant would get. */
    complete(draft, _address, _current, { seed }) {
      const limits = draft?.global_settings ?? {};
      return {
        ...draft,
        global_settings: isObject(limits) ? { ...seed.global_settings, ...limits } : limits,
        service_overrides: draft?.service_overrides ?? seed.service_overrides,
      };
    },
    check({ next, current, context: { types, sets } }) {
      const { refused, warned } = boundViolations(valuesOfRisk, next, current, sets);
      return { refused: [...checkRisk(next, current, types), ...refused], warned };
    },
    tightens: tightensRisk,
  };
}

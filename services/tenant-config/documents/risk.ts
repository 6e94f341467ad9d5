/** A tenant's risk limits: one document, there from the tenant's creation. */
import { RiskConfig } from '../../../shared/contracts/risk.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentKind } from '../../../shared/documents/document-kind.ts';
import type { Settings } from '../../../shared/settings.ts';
import { checkRisk, seedRisk } from '../rules/risk.ts';
import { RiskEntity } from '../schema.ts';
import { managedTypes, type ManagedTypes } from '../stores/managed-types.ts';
import { inTable, tenantDocument } from './tenant-document.ts';

const resourceId = ({ tenant_id }: TenantAddress): string => tenant_id;

interface Context {
  readonly seed: RiskConfig;
  readonly types: ManagedTypes;
}

export function riskKind(
  settings: () => Settings,
): DocumentKind<TenantAddress, RiskConfig, Context> {
  return {
    ...tenantDocument({ auditName: 'risk', configType: 'tenant_risk_config', resourceId }),
    ...inTable(RiskEntity, resourceId),
    schema: RiskConfig,
    async prepare(_address, request) {
      const types = await managedTypes(request);
      return { types, seed: seedRisk(settings(), types) };
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
    check: ({ next, current, context }) => checkRisk(next, current, context.types),
  };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

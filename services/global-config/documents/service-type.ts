/** Service types, one document per type and configuration_name. */
import { isDeepStrictEqual } from 'node:util';
import { ofKnownTypes } from '../../../shared/bounds/known-keys.ts';
import { ServiceType, type ServiceTypeAddress } from '../../../shared/contracts/service-types.ts';
import { BusinessHours, businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import { columnsOf } from '../../../shared/database/columns.ts';
import type { DocumentKind, Stored } from '../../../shared/documents/document-kind.ts';
import type { Problem } from '../../../shared/errors.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import { ServiceTypeEntity, type ServiceTypeRow } from '../schema.ts';
import { heldByRollouts } from '../stores/rollouts.ts';
import { platformDocument } from './platform-document.ts';

export const storedServiceType = ({
  revision,
  updated_by,
  updated_at,
  ...document
}: ServiceTypeRow): Stored<ServiceType> => ({
  document,
  revision,
  updated_by,
  updated_at: updated_at.toISOString(),
});

/** As rollouts write it, which hold it for everybody else. */
export const rolledOutTypeKind: DocumentKind<ServiceTypeAddress, ServiceType> = {
  ...platformDocument<ServiceTypeAddress, ServiceType>({
    auditName: 'service_type',
    configType: 'service_type_config',
    actions: 'global-config.service-types',
    /** Neither part has a slash. */
    resourceId: ({ service_type, configuration_name }: ServiceTypeAddress) =>
      `${service_type}/${configuration_name}`,
    async find(manager, { service_type, configuration_name }) {
      const row = await manager.findOneBy(ServiceTypeEntity, { service_type, configuration_name });
      return row && storedServiceType(row);
    },
    async save(manager, _address, { document, revision, updated_by, updated_at }) {
      const row = { ...document, revision, updated_by, updated_at: new Date(updated_at) };
      await manager.upsert(ServiceTypeEntity, columnsOf<ServiceTypeRow>(row), [
        'service_type',
        'configuration_name',
      ]);
    },
    remove: (manager, { service_type, configuration_name }) =>
      manager.delete(ServiceTypeEntity, { service_type, configuration_name }),
  }),
  schema: ServiceType,
  complete: (draft, { service_type, configuration_name }) => ({
    default_settings: {},
    scaling_limits: {},
    monitoring_defaults: {},
    is_active: true,
    service_type,
    configuration_name,
    ...draft,
  }),
  isForTenants: ({ is_active: isActive }) => isActive,
  check: ({ next, address, current }) => ({
    refused: [
      ...namesOfPath(next, address),
      ...scalingOrder(next),
      ...settingProblems(next.default_settings, current?.default_settings ?? {}),
    ],
  }),
};

export const serviceTypeKind = heldByRollouts(rolledOutTypeKind);

const namesOfPath = (next: ServiceType, address: ServiceTypeAddress): Problem[] =>
  (['service_type', 'configuration_name'] as const)
    .filter((field) => next[field] !== address[field])
    .map((field) => ({ path: `/${field}`, message: `is not the ${field} of the path` }));

/** Of keys that Strata knows, for what a write changes. Null says that there is no value. */
function settingProblems(next: Settings, current: Settings): Problem[] {
  const values = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== null));
  return [
    ...ofKnownTypes(values, current, '/default_settings'),
    ...hoursProblems(values[businessHoursKey], current[businessHoursKey]),
  ];
}
type Settings = ServiceType['default_settings'];

function hoursProblems(hours: unknown, current: unknown): Problem[] {
  const isObject = typeof hours === 'object' && !Array.isArray(hours);
  if (!isObject || isDeepStrictEqual(hours, current)) return [];
  return problemsOf(BusinessHours, hours).map(({ path, message }) => ({
    path: `/default_settings/${businessHoursKey}${path}`,
    message,
  }));
}

function scalingOrder({ scaling_limits: limits }: ServiceType): Problem[] {
  const { min_instances: min = 0, max_instances: max = Infinity } = limits;
  if (min <= max) return [];
  return [{ path: '/scaling_limits/min_instances', message: 'is more than max_instances' }];
}

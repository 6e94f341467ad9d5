/** The kinds of documents that the platform has. */
import {
  budgetsKind,
  changePolicyKind,
  eventDestinationsKind,
  freezesKind,
  type DocumentKind,
} from './document-kinds.ts';

const ofPlatform = { writers: [], isPlatform: true, hasImpact: true } as const;

export const globalEntries: DocumentKind = {
  ...ofPlatform,
  name: 'global',
  title: 'Global entry',
  plural: 'Global configuration',
  about: 'A value of the platform; a public one is a layer of every effective configuration',
  path: '/config/global/{key}',
  list: '/config/global',
  idField: 'config_key',
  columns: ['config_value', 'is_public', 'requires_restart'],
  configType: 'global_config',
};

export const serviceTypes: DocumentKind = {
  ...ofPlatform,
  name: 'service-types',
  title: 'Service type',
  plural: 'Service types',
  about: 'Defaults and limits of a kind of service; the active one named default is a layer',
  path: '/config/service-types/{service_type}/{configuration_name}',
  list: '/config/service-types',
  idField: 'service_type/configuration_name',
  idFields: ['service_type', 'configuration_name'],
  columns: ['is_active', 'scaling_limits', 'default_settings'],
  configType: 'service_type_config',
};

export const platformBounds: DocumentKind = {
  ...ofPlatform,
  name: 'bounds',
  title: 'Guardrails of the platform',
  about: 'What effective values of every tenant have to keep to, whichever layer decides',
  path: '/config/bounds',
  noun: 'guardrail',
  named: 'key of the effective values',
  configType: 'bounds_config',
};

export const platformBudgets: DocumentKind = {
  ...ofPlatform,
  ...budgetsKind,
  title: 'Budgets of the platform',
  about: 'They hold in every tenant by itself, beside its own',
  path: '/config/budgets',
};

export const platformFreezes: DocumentKind = {
  ...ofPlatform,
  ...freezesKind,
  title: 'Freezes of the platform',
  about: 'They hold in every tenant, beside its own',
  path: '/config/freezes',
};

export const platformChangePolicy: DocumentKind = {
  ...ofPlatform,
  ...changePolicyKind,
  title: 'Change policy of the platform',
  about:
    'What is only changed with the approval of somebody else: of the platform, and of every tenant',
  path: '/config/change-policy',
  hasImpact: false,
};

export const platformEventDestinations: DocumentKind = {
  ...ofPlatform,
  ...eventDestinationsKind,
  title: 'Event destinations of the platform',
  about:
    "Where the platform's own audit events are pushed to, so that their receiver can prove that none is missing",
  path: '/config/event-destinations',
  hasImpact: false,
};

export const platformKinds: readonly DocumentKind[] = [
  globalEntries,
  serviceTypes,
  platformBounds,
  platformBudgets,
  platformFreezes,
  platformChangePolicy,
  platformEventDestinations,
];

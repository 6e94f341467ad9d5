/** The kinds of documents that a tenant has: where each is, and who may write it. */
import type { Role } from './screen.ts';

export interface DocumentKind {
  /** In the console's addresses. */
  readonly name: string;
  readonly title: string;
  /** What a list of several is called; absent where a tenant has one. */
  readonly plural?: string;
  readonly about: string;
  /** Of the API, with placeholders as in OpenAPI. */
  readonly path: string;
  readonly list?: string;
  readonly idField?: string;
  /** Of an item, for the list. */
  readonly columns?: readonly string[];
  readonly writers: readonly Role[];
  readonly configType: string;
}

const admins: readonly Role[] = ['tenant_admin'];

export const documentKinds: readonly DocumentKind[] = [
  {
    name: 'risk',
    title: 'Risk limits',
    about: 'What automation may do on its own, and what a human may approve',
    path: '/tenants/{tenant_id}/config/risk',
    writers: admins,
    configType: 'tenant_risk_config',
  },
  {
    name: 'bounds',
    title: 'Bounds',
    about: 'What effective values have to keep to, whichever layer decides',
    path: '/tenants/{tenant_id}/config/bounds',
    writers: admins,
    configType: 'bounds_config',
  },
  {
    name: 'notifications',
    title: 'Notification routes',
    about: 'Who is asked for approval, over which channels, and what happens when nobody decides',
    path: '/tenants/{tenant_id}/config/notifications',
    writers: admins,
    configType: 'notification_config',
  },
  {
    name: 'agents',
    title: 'Agent configuration',
    plural: 'Agents',
    about: 'Defaults of one agent type',
    path: '/tenants/{tenant_id}/config/agents/{agent_type}',
    list: '/tenants/{tenant_id}/config/agents',
    idField: 'agent_type',
    columns: ['default_region', 'default_memory', 'default_cpu'],
    writers: admins,
    configType: 'agent_config',
  },
  {
    name: 'services',
    title: 'Service instance',
    plural: 'Service instances',
    about: 'Overrides of one service',
    path: '/tenants/{tenant_id}/services/{service_id}',
    list: '/tenants/{tenant_id}/services',
    idField: 'service_id',
    columns: ['service_name', 'service_type', 'min_instances', 'max_instances'],
    writers: ['tenant_admin', 'operator'],
    configType: 'service_config',
  },
  {
    name: 'projects',
    title: 'Project',
    plural: 'Projects',
    about: 'A cloud project that instances run in',
    path: '/tenants/{tenant_id}/projects/{project_id}/config',
    list: '/tenants/{tenant_id}/projects',
    idField: 'project_id',
    columns: ['name', 'region', 'environment'],
    writers: admins,
    configType: 'project_config',
  },
];

export const kindNamed = (name: string | undefined): DocumentKind | undefined =>
  documentKinds.find((kind) => kind.name === name);

/** The address of a document of the API. */
export const addressOf = (path: string, tenantId: string, id = ''): string =>
  path
    .replace('{tenant_id}', encodeURIComponent(tenantId))
    .replace(/\{[a-z_]+\}/, encodeURIComponent(id));

/** Of the screen that shows and edits it. */
export const screenOf = (tenantId: string, { name, plural }: DocumentKind, id: string): string =>
  `/tenants/${tenantId}/documents/${name}${plural === undefined ? '' : `/${encodeURIComponent(id)}`}`;

/** Kinds of documents, and those that a tenant has: where each is, and who may write it. */
import { ofTenant, tenantShown } from '../address.ts';
import { withQuery } from '../api.ts';
import { hasRole, isPlatformAdmin, isVisiting } from '../session.ts';
import type { Role } from './screen.ts';

export interface DocumentKind {
  /** In the console's addresses. */
  readonly name: string;
  readonly title: string;
  /** What a list of several is called; absent where a tenant has one. */
  readonly plural?: string;
  readonly about: string;
  /** What a member is, where their names are for people to choose. */
  readonly noun?: string;
  /** What the name of a member is. */
  readonly named?: string;
  /** Of the API, with placeholders as in OpenAPI. */
  readonly path: string;
  readonly list?: string;
  readonly idField?: string;
  /** Where an address has several names: the fields that they are, in order. */
  readonly idFields?: readonly string[];
  /** Of an item, for the list. */
  readonly columns?: readonly string[];
  readonly writers: readonly Role[];
  readonly configType: string;
  /** It belongs to no tenant, and the platform's administrators write it. */
  readonly isPlatform?: boolean;
  /** Whether a trial can say what changes in effective configurations. */
  readonly hasImpact?: boolean;
}

const admins: readonly Role[] = ['tenant_admin'];

export const changePolicyKind = {
  name: 'change-policy',
  title: 'Change policy',
  configType: 'change_policy_config',
} as const;

export const eventDestinationsKind = {
  name: 'event-destinations',
  title: 'Event destinations',
  noun: 'destination',
  configType: 'event_destinations_config',
} as const;

export const budgetsKind = {
  name: 'budgets',
  title: 'Budgets',
  about:
    'How much automation may cost, or how often it may act, in an hour, a day, a week or a month',
  noun: 'budget',
  configType: 'budgets_config',
} as const;

export const freezesKind = {
  name: 'freezes',
  title: 'Freezes',
  about: 'When automation may not act, or the only times at which it may',
  noun: 'freeze',
  configType: 'freezes_config',
} as const;

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
    title: 'Guardrails',
    about: 'What effective values have to keep to, whichever layer decides; the API says bounds',
    path: '/tenants/{tenant_id}/config/bounds',
    noun: 'guardrail',
    named: 'key of the effective values',
    hasImpact: true,
    writers: admins,
    configType: 'bounds_config',
  },
  {
    ...budgetsKind,
    path: '/tenants/{tenant_id}/config/budgets',
    hasImpact: true,
    writers: admins,
  },
  {
    ...freezesKind,
    path: '/tenants/{tenant_id}/config/freezes',
    hasImpact: true,
    writers: admins,
  },
  {
    ...changePolicyKind,
    about: 'What is only changed with the approval of somebody else',
    path: '/tenants/{tenant_id}/config/change-policy',
    writers: admins,
  },
  {
    name: 'notifications',
    title: 'Approval routing',
    about: 'Who is asked for approval, over which channels, and what happens when no one decides',
    path: '/tenants/{tenant_id}/config/notifications',
    writers: admins,
    configType: 'notification_config',
  },
  {
    ...eventDestinationsKind,
    about:
      'Where audit events are pushed to, so that their receiver can prove that none is missing',
    path: '/tenants/{tenant_id}/config/event-destinations',
    writers: admins,
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
    columns: ['service_name', 'service_type', 'owner', 'labels', 'min_instances', 'max_instances'],
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

export const mayWrite = ({ isPlatform, writers }: DocumentKind): boolean =>
  isPlatform ? isPlatformAdmin.value : hasRole(...writers);

/** A person who may write instances may not remove them. */
export const mayDelete = (kind: DocumentKind): boolean =>
  kind.plural !== undefined && (kind.isPlatform ? mayWrite(kind) : hasRole('tenant_admin'));

/** Of an item of a list. Several names are joined by slashes, as they are in its address. */
export const idOf = (
  { idField = '', idFields = [idField] }: DocumentKind,
  item: Readonly<Record<string, unknown>>,
): string => idFields.map((name) => String(item[name])).join('/');

/**
 * The address of a document of the API. Where it has two names, `id` has both with a slash between.
 */
export function addressOf(path: string, id = ''): string {
  const own = path.replace('{tenant_id}', tenantShown.value);
  const places = [...own.matchAll(/\{[a-z_]+\}/g)];
  const names = places.length > 1 ? id.split('/') : [id];
  return places.reduce(
    (address, [place], index) => address.replace(place, encodeURIComponent(names[index] ?? '')),
    own,
  );
}

const isOfPath = (kind: DocumentKind, parts: readonly string[]): boolean => {
  const own = kind.path.split('/');
  const fits = (part: string, index: number): boolean =>
    part.startsWith('{') || part === parts[index];
  return own.length === parts.length && own.every(fits);
};

/** What is at a path of the API, with its name; undefined where that is none of these kinds. */
export function documentAt(
  path: string,
  kinds: readonly DocumentKind[],
): { readonly kind: DocumentKind; readonly id: string } | undefined {
  const parts = path.split('/');
  const kind = kinds.find((each) => isOfPath(each, parts));
  if (!kind) return undefined;
  const isName = (part: string): boolean => part.startsWith('{') && part !== '{tenant_id}';
  const names = kind.path.split('/').flatMap((part, index) => (isName(part) ? parts[index]! : []));
  return { kind, id: names.map(decodeURIComponent).join('/') };
}

/** Such as "Agent configuration scaler". */
export const titleOf = ({ plural, title }: DocumentKind, id: string): string =>
  plural === undefined ? title : `${title} ${id}`;

/** Of the screen that lists the documents of a kind, or of the only one. */
const listOf = ({ name, isPlatform }: DocumentKind): string =>
  isPlatform ? `/platform/${name}` : ofTenant(`/documents/${name}`);

/** Where to go once a document is no more. */
export const screenAbove = (kind: DocumentKind): string =>
  kind.isPlatform ? listOf(kind) : ofTenant('/documents');

/** Of the screen that shows and edits one. */
export function screenOf(kind: DocumentKind, id: string): string {
  const list = listOf(kind);
  if (kind.plural === undefined) return list;
  const names = kind.idFields ? id.split('/') : [id];
  return `${list}/${names.map(encodeURIComponent).join('/')}`;
}

/** Where else it is to be seen: what holds for it, and what became of it. */
export function linksOf(kind: DocumentKind, id: string): [string, string][] {
  const of = kind.isPlatform ? '/platform' : ofTenant();
  const document = {
    config_type: kind.configType,
    ...(kind.plural !== undefined && { resource_id: id }),
  };
  const asks = { agents: { agent_type: id }, services: { service_id: id } };
  const question = Object.hasOwn(asks, kind.name) && asks[kind.name as keyof typeof asks];
  const links: [string, string][] = [];
  if (kind.name === 'services')
    links.push(['Its page', `${of}/services/${encodeURIComponent(id)}`]);
  if (question) links.push(['What holds for it', withQuery(`${of}/effective`, question)]);
  if (question && !isVisiting.value) links.push(['What if', withQuery(`${of}/what-if`, question)]);
  return [...links, ['Its history', withQuery(`${of}/history`, document)]];
}

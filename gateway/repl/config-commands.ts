/** Commands about configuration: reading, explaining, changing it and taking changes back. */
import { contractOf, type ActionName, type ResultOf } from '../../shared/contracts/index.ts';
import { configTypes, platformConfigTypes } from '../../shared/contracts/history.ts';
import { Misused, type Command, type Flag, type Input } from './command.ts';
import { json } from './output.ts';
import type { Session } from './session.ts';
import {
  countOf,
  given,
  jsonOf,
  platformWord,
  revisionOf,
  tenantId,
  tenantIds,
  textOf,
} from './typed.ts';

/** What an operator calls a resource, and what its actions begin with. A test finds a document that is missing here. */
export const resources: Readonly<Record<string, string>> = {
  risk: 'tenant-config.risk',
  agent: 'tenant-config.agents',
  service: 'tenant-config.services',
  project: 'tenant-config.projects',
  notifications: 'tenant-config.notifications',
  bounds: 'tenant-config.bounds',
  global: 'global-config.entries',
  'service-type': 'global-config.service-types',
  'platform-bounds': 'global-config.bounds',
};
const resourceNames = Object.keys(resources);

interface Addressed {
  readonly action: ActionName;
  /** The parameters that say which document. */
  readonly address: Readonly<Record<string, string>>;
  /** The words after the address. */
  readonly left: readonly string[];
}

/** The action on a document, whose address is as many of the words as the action's path has parameters. */
async function addressed(
  resource: string,
  verb: 'get' | 'put' | 'patch',
  words: readonly string[],
  session: Session,
): Promise<Addressed> {
  const prefix = resources[resource];
  if (prefix === undefined)
    throw new Misused(`there is no resource ${resource}; there are ${resourceNames.join(', ')}`);
  const action = `${prefix}.${verb}` as ActionName;
  const { pathParams } = contractOf(action)!.rest!;
  if (words.length < pathParams.length)
    throw new Misused(`${resource} needs ${pathParams.map((name) => `<${name}>`).join(' ')}`);
  const address = pathParams.map(async (name, index) => {
    const word = words[index]!;
    return [name, name === 'tenant_id' ? await tenantId(session, word) : word] as const;
  });
  return {
    action,
    address: Object.fromEntries(await Promise.all(address)),
    left: words.slice(pathParams.length),
  };
}

const reason: Flag = { type: 'string', summary: 'why, kept in the history' };
const dryRun: Flag = { type: 'boolean', summary: 'show the changes, write nothing' };
const completeTenant = { tenant: tenantIds };
const completeOwner = {
  tenant: async (session: Session) => [platformWord, ...(await tenantIds(session))],
};
const completeAddress = { resource: async () => resourceNames, address: tenantIds };

const get: Command = {
  name: 'config get',
  parameters: '<resource> <address...>',
  summary: `one document as stored: ${resourceNames.join(', ')}`,
  complete: completeAddress,
  async run({ session, args, rest, print }) {
    const { action, address, left } = await addressed(args.resource!, 'get', rest, session);
    if (left.length > 0) throw new Misused(`${left[0]} is too much`);
    print(json(await session.call(action, address)));
  },
};

const set: Command = {
  name: 'config set',
  parameters: '<resource> <address...> <json>',
  summary: 'merge JSON into a document (RFC 7396)',
  complete: completeAddress,
  flags: {
    replace: { type: 'boolean', summary: 'replace the whole document, or create it' },
    'dry-run': dryRun,
    reason,
  },
  async run({ session, args, rest, flags, print }) {
    const verb = flags.replace ? 'put' : 'patch';
    const { action, address, left } = await addressed(args.resource!, verb, rest, session);
    if (left.length !== 1)
      throw new Misused('one JSON value is needed after the address; in a shell, in quotes');
    const params = given({
      ...address,
      body: jsonOf(left[0]!),
      reason: textOf(flags.reason),
      dry_run: flags['dry-run'],
    });
    print(json(await session.call(action, params)));
  },
};

const aspects: Readonly<Record<string, Flag>> = {
  agent: { type: 'string', summary: 'for this agent type' },
  service: { type: 'string', summary: 'on this service instance' },
  type: { type: 'string', summary: 'of this service type' },
  'as-of': { type: 'string', summary: 'at this revision or time' },
};

function resolve(
  { session, args, flags }: Input,
  { explain }: { explain: boolean },
): Promise<ResultOf<'config-resolver.resolve'>> {
  const params = given({
    tenant_id: args.tenant,
    agent_type: textOf(flags.agent),
    service_id: textOf(flags.service),
    service_type: textOf(flags.type),
    as_of: textOf(flags['as-of']),
    explain: explain || undefined,
  });
  return session.call('config-resolver.resolve', params);
}

const effective: Command = {
  name: 'config effective',
  parameters: '<tenant>',
  summary: 'all layers merged',
  flags: aspects,
  complete: completeTenant,
  async run(input) {
    input.print(json(await resolve(input, { explain: false })));
  },
};

const explain: Command = {
  name: 'config explain',
  parameters: '<tenant> [key]',
  summary: 'which layer decides each value, and what it shadows',
  flags: aspects,
  complete: completeTenant,
  async run(input) {
    const { key } = input.args;
    const { values, explain: reasons = {} } = await resolve(input, { explain: true });
    if (key !== undefined && !Object.hasOwn(reasons, key)) throw new Misused(`no layer has ${key}`);
    const keys = key === undefined ? Object.keys(reasons) : [key];
    const explained = keys.map((name) => [name, { value: values[name], ...reasons[name] }]);
    input.print(json(Object.fromEntries(explained)));
  },
};

type HistoryEntry =
  | ResultOf<'tenant-config.history.list'>['items'][number]
  | ResultOf<'global-config.history.list'>['items'][number];

/** One line that says what happened, and one for each change. */
function entryLines(entry: HistoryEntry): string[] {
  const { revision, changed_at: at, action, config_type: type, resource_id: resource } = entry;
  const what = `${revision}  ${at}  ${action} ${type} ${resource} by ${entry.changed_by_name ?? entry.changed_by}`;
  const why = entry.reason === null ? '' : `: ${entry.reason}`;
  const changes = entry.changes.map(
    ({ path, before, after }) =>
      `    ${path || '/'}: ${valueShown(before)} -> ${valueShown(after)}`,
  );
  return [`${what}${why}`, ...changes];
}

const valueShown = (value: unknown): string =>
  value === undefined ? 'nothing' : JSON.stringify(value);

const history: Command = {
  name: 'config history',
  parameters: '<tenant> [revision]',
  summary: `what changed, newest first, also of the ${platformWord}; one revision with before and after`,
  complete: completeOwner,
  flags: {
    type: {
      type: 'string',
      summary: `only ${configTypes.join(', ')}; of the platform ${platformConfigTypes.join(', ')}`,
    },
    resource: { type: 'string', summary: 'only this resource_id' },
    limit: { type: 'string', summary: 'how many, 20 unless told' },
  },
  async run({ session, args: { tenant, revision }, flags, print }) {
    const isPlatform = tenant === platformWord;
    if (revision !== undefined) {
      const asked = { revision: revisionOf(revision) };
      const entry = isPlatform
        ? await session.call('global-config.history.get', asked)
        : await session.call('tenant-config.history.get', { tenant_id: tenant, ...asked });
      print(json(entry));
      return;
    }
    const asked = given({
      limit: countOf(flags.limit, 20),
      config_type: textOf(flags.type),
      resource_id: textOf(flags.resource),
    });
    const { items }: { readonly items: readonly HistoryEntry[] } = isPlatform
      ? await session.call('global-config.history.list', asked)
      : await session.call('tenant-config.history.list', { tenant_id: tenant, ...asked });
    for (const line of items.flatMap(entryLines)) print(line);
  },
};

const rollback: Command = {
  name: 'config rollback',
  parameters: '<tenant> <revision>',
  summary: `restore what its resource held right after that revision, also of the ${platformWord}`,
  complete: completeOwner,
  flags: { 'dry-run': dryRun, reason },
  async run({ session, args: { tenant, revision }, flags, print }) {
    const params = given({
      body: given({ revision: revisionOf(revision!), reason: textOf(flags.reason) }),
      dry_run: flags['dry-run'],
    });
    const written =
      tenant === platformWord
        ? await session.call('global-config.rollback', params)
        : await session.call('tenant-config.rollback', { tenant_id: tenant, ...params });
    print(json(written));
  },
};

export const configCommands: readonly Command[] = [get, effective, explain, set, history, rollback];

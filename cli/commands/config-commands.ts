/** Commands about configuration: reading, explaining, changing it and taking changes back. */
import { contractOf, type ActionName, type ResultOf } from '../../shared/contracts/index.ts';
import { configTypes, platformConfigTypes } from '../../shared/contracts/history.ts';
import { diff } from '../../shared/schema/diff.ts';
import { assigned, removed } from '../assignments.ts';
import { Misused, type Command, type Flag, type Input } from '../command.ts';
import { contextFlags, contextOf } from '../intent.ts';
import { columns, printableLine, valueShown } from '../output.ts';
import type { Session } from '../session.ts';
import {
  countOf,
  given,
  jsonOf,
  ownerIds,
  platformWord,
  revisionOf,
  tenantId,
  tenantIds,
  textOf,
} from '../typed.ts';

/**
 * What an operator calls a resource, and what its actions begin with. A test finds a document that
 * is missing here.
 */
export const resources: Readonly<Record<string, string>> = {
  risk: 'tenant-config.risk',
  agent: 'tenant-config.agents',
  service: 'tenant-config.services',
  project: 'tenant-config.projects',
  notifications: 'tenant-config.notifications',
  bounds: 'tenant-config.bounds',
  budgets: 'tenant-config.budgets',
  freezes: 'tenant-config.freezes',
  'change-policy': 'tenant-config.change-policy',
  'event-destinations': 'tenant-config.event-destinations',
  global: 'global-config.entries',
  'service-type': 'global-config.service-types',
  'platform-bounds': 'global-config.bounds',
  'platform-budgets': 'global-config.budgets',
  'platform-freezes': 'global-config.freezes',
  'platform-change-policy': 'global-config.change-policy',
  'platform-event-destinations': 'global-config.event-destinations',
};
const resourceNames = Object.keys(resources);

/**
 * The action on a document, whose address is as many of the words as the action's path has
 * parameters.
 */
async function addressed(
  resource: string,
  verb: 'get' | 'put' | 'patch' | 'delete',
  words: readonly string[],
  session: Session,
) {
  const prefix = resources[resource];
  if (prefix === undefined)
    throw new Misused(`there is no resource ${resource}; there are ${resourceNames.join(', ')}`);
  const action = `${prefix}.${verb}` as ActionName;
  const contract = contractOf(action);
  if (!contract) throw new Misused(`${resource} is always there; config set changes it`);
  const { pathParams } = contract.rest!;
  // Where options say which tenant is meant, words do not.
  const typed = pathParams.filter((name) => name !== 'tenant_id' || session.tenant === undefined);
  if (words.length < typed.length)
    throw new Misused(`${resource} needs ${typed.map((name) => `<${name}>`).join(' ')}`);
  const address = pathParams.map(async (name) => {
    const word = words[typed.indexOf(name)];
    if (name !== 'tenant_id') return [name, word!] as const;
    return [name, word === undefined ? await session.tenant!() : await tenantId(session, word)];
  });
  return {
    action,
    address: Object.fromEntries(await Promise.all(address)),
    /** The words after the address. */
    left: words.slice(typed.length),
  };
}

const dryRun: Flag = { type: 'boolean', summary: 'show the changes, write nothing' };
/** What a write says that is refused without: an approval that it needs, fields that a folder owns. */
export const guardFlags: Readonly<Record<string, Flag>> = {
  propose: { type: 'boolean', summary: 'where it needs an approval, ask for that' },
  'break-glass': { type: 'string', summary: 'why it cannot wait for approval, in an emergency' },
  'take-over': {
    type: 'string',
    summary: 'folders, with commas, whose fields are changed by hand',
  },
};
const writeFlags: Readonly<Record<string, Flag>> = {
  'dry-run': dryRun,
  reason: { type: 'string', summary: 'why, kept in the history' },
  'if-match': { type: 'string', summary: 'only where this is still its revision' },
  ...guardFlags,
};
const temporaryFlags: Readonly<Record<string, Flag>> = {
  ...writeFlags,
  until: {
    type: 'string',
    summary: 'when it ends by itself (RFC 3339): each field becomes what it was',
  },
};
export const guardOptions = (flags: Input['flags']) => ({
  propose: flags.propose,
  break_glass: textOf(flags['break-glass']),
  take_over: textOf(flags['take-over']),
});
/** The parameters that every write has. */
const writeOptions = (flags: Input['flags']) =>
  given({
    dry_run: flags['dry-run'],
    reason: textOf(flags.reason),
    ...guardOptions(flags),
    until: textOf(flags.until),
    if_match:
      typeof flags['if-match'] === 'string' ? `"${revisionOf(flags['if-match'])}"` : undefined,
  });
const completeOwner = { tenant: ownerIds };
const completeAddress = { resource: async () => resourceNames, address: tenantIds };

/** A document of any kind, as its owner answers it. */
type Stored = Omit<ResultOf<'tenant-config.risk.get'>, 'document'> & { readonly document: unknown };
/** Likewise what a write answers. */
export type Written = ResultOf<'tenant-config.rollback'>;

/** Every value by its path, and who wrote it last. */
function documentShown({ document, ...written }: Stored): string {
  const values = diff(undefined, document).map(({ path, after }) => ({
    path: path || '/',
    value: valueShown(after),
  }));
  const who = printableLine(written.updated_by_name ?? written.updated_by);
  return `${columns(values)}\n\nrevision ${written.revision} by ${who} at ${written.updated_at}`;
}

export function answerWritten(answer: Input['answer'], written: Written): void {
  answer(written, () => {
    if ('change_set' in written) return `waits for approval at ${written.change_set.path}`;
    if (!('dry_run' in written)) return `${written.outcome}, revision ${written.revision}`;
    if (written.changes.length === 0) return 'nothing would change';
    return columns(
      written.changes.map(({ path, before, after }) => ({
        path: path || '/',
        before: valueShown(before),
        after: valueShown(after),
      })),
    );
  });
}

const get: Command = {
  name: 'config get',
  parameters: '<resource> <address...>',
  summary: `one document as stored: ${resourceNames.join(', ')}`,
  complete: completeAddress,
  async run({ session, args, rest, answer }) {
    const { action, address, left } = await addressed(args.resource!, 'get', rest, session);
    if (left.length > 0) throw new Misused(`${left[0]} is too much`);
    const got = (await session.call(action, address)) as Stored;
    answer(got, () => documentShown(got));
  },
};

const set: Command = {
  name: 'config set',
  parameters: '<resource> <address...> <change...>',
  summary: 'change parts of a document: JSON that is merged into it (RFC 7396), or single values',
  complete: completeAddress,
  flags: {
    replace: { type: 'boolean', summary: 'replace the whole document, or create it' },
    ...temporaryFlags,
  },
  async run({ session, args, rest, flags, answer }) {
    const verb = flags.replace ? 'put' : 'patch';
    const { action, address, left } = await addressed(args.resource!, verb, rest, session);
    const [first] = left;
    if (first === undefined)
      throw new Misused(
        'JSON or <path>=<value> is needed after the address; in a shell, in quotes',
      );
    const isJson = /^\s*[{[]/.test(first);
    if (isJson && left.length > 1) throw new Misused('JSON is one word; in a shell, in quotes');
    const body = isJson ? jsonOf(first) : assigned(left);
    const params = { ...address, body, ...writeOptions(flags) };
    answerWritten(answer, (await session.call(action, params)) as Written);
  },
};

const patch: Command = {
  name: 'config patch',
  parameters: '<resource> <address...> <json>',
  summary: 'merge JSON into a document (RFC 7396)',
  complete: completeAddress,
  flags: temporaryFlags,
  async run({ session, args, rest, flags, answer }) {
    const { action, address, left } = await addressed(args.resource!, 'patch', rest, session);
    if (left.length !== 1)
      throw new Misused('one JSON value is needed after the address; in a shell, in quotes');
    const body = jsonOf(left[0]!);
    const params = { ...address, body, ...writeOptions(flags) };
    answerWritten(answer, (await session.call(action, params)) as Written);
  },
};

const unset: Command = {
  name: 'config unset',
  parameters: '<resource> <address...> [path...]',
  summary: 'take values out of a document, or with --all the document: lower layers show through',
  complete: completeAddress,
  flags: { all: { type: 'boolean', summary: 'the whole document' }, ...temporaryFlags },
  async run({ session, args, rest, flags, answer }) {
    const verb = flags.all ? 'delete' : 'patch';
    const { action, address, left } = await addressed(args.resource!, verb, rest, session);
    if (flags.all && left.length > 0)
      throw new Misused('--all takes the whole document, not a path');
    if (!flags.all && left.length === 0)
      throw new Misused('the paths of values are needed, or --all for the whole document');
    const change = flags.all ? {} : { body: removed(left) };
    const params = { ...address, ...change, ...writeOptions(flags) };
    answerWritten(answer, (await session.call(action, params)) as Written);
  },
};

const aspects: Readonly<Record<string, Flag>> = {
  ...contextFlags,
  'as-of': { type: 'string', summary: 'at this revision or time' },
};

function resolve(
  { session, args, flags }: Input,
  { explain }: { explain: boolean },
): Promise<ResultOf<'config-resolver.resolve'>> {
  const params = given({
    tenant_id: args.tenant,
    ...contextOf(flags),
    as_of: textOf(flags['as-of']),
    explain: explain || undefined,
    // A misspelt name would be answered without its layers, and may find a looser limit.
    strict: true,
  });
  return session.call('config-resolver.resolve', params);
}

const effective: Command = {
  name: 'config effective',
  parameters: '<tenant>',
  summary: 'all layers merged',
  flags: aspects,
  async run(input) {
    const effective = await resolve(input, { explain: false });
    input.answer(effective, () => {
      const enforced = new Set(effective.enforced);
      const rows = Object.entries(effective.values).map(([key, value]) => ({
        key,
        value: valueShown(value),
        ...(enforced.has(key) && { by: 'a guardrail' }),
      }));
      return columns(rows);
    });
  },
};

const explain: Command = {
  name: 'config explain',
  parameters: '<tenant> [key]',
  summary: 'which layer decides each value, and what it shadows',
  flags: aspects,
  async run(input) {
    const { key } = input.args;
    const effective = await resolve(input, { explain: true });
    const { values, explain: reasons = {} } = effective;
    if (key !== undefined && !Object.hasOwn(reasons, key)) throw new Misused(`no layer has ${key}`);
    const keys = key === undefined ? Object.keys(reasons) : [key];
    const explained = keys.map(
      (name) => [name, { value: values[name], ...reasons[name]! }] as const,
    );
    input.answer(Object.fromEntries(explained), () => {
      const rows = explained.map(([name, reason]) => ({
        key: name,
        value: valueShown(reason.value),
        layer: reason.layer,
        source: reason.source,
        by: reason.updated_by_name ?? reason.updated_by,
        at: reason.updated_at,
        shadowed: shadowed(reason),
      }));
      return columns(rows);
    });
  },
};

type Explanation = NonNullable<ResultOf<'config-resolver.resolve'>['explain']>[string];

/** What other layers hold, and what a bound was asked for. */
function shadowed({ shadowed: others, enforced }: Explanation): string {
  const asked = enforced ? [`limited by a guardrail of the ${enforced.by}`] : [];
  const below = others.map(({ layer, value }) => `${layer} ${valueShown(value)}`);
  return [...asked, ...below].join(', ') || '-';
}

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
  return [`${what}${why}`, ...changes].map(printableLine);
}

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
    limit: { type: 'string', summary: 'how many, 20 by default' },
  },
  async run({ session, args: { tenant, revision }, flags, answer }) {
    const isPlatform = tenant === platformWord;
    if (revision !== undefined) {
      const asked = { revision: revisionOf(revision) };
      const entry = isPlatform
        ? await session.call('global-config.history.get', asked)
        : await session.call('tenant-config.history.get', { tenant_id: tenant, ...asked });
      answer(entry);
      return;
    }
    const asked = given({
      limit: countOf(flags.limit, 20),
      config_type: textOf(flags.type),
      resource_id: textOf(flags.resource),
    });
    const page: { readonly items: readonly HistoryEntry[] } = isPlatform
      ? await session.call('global-config.history.list', asked)
      : await session.call('tenant-config.history.list', { tenant_id: tenant, ...asked });
    answer(page, () => page.items.flatMap(entryLines).join('\n') || 'none');
  },
};

const rollback: Command = {
  name: 'config rollback',
  parameters: '<tenant> <revision>',
  summary: `restore what its resource held right after that revision, also of the ${platformWord}`,
  complete: completeOwner,
  flags: writeFlags,
  async run({ session, args: { tenant, revision }, flags, answer }) {
    const params = { body: { revision: revisionOf(revision!) }, ...writeOptions(flags) };
    const written =
      tenant === platformWord
        ? await session.call('global-config.rollback', params)
        : await session.call('tenant-config.rollback', { tenant_id: tenant, ...params });
    answerWritten(answer, written);
  },
};

const purge: Command = {
  name: 'config purge',
  parameters: '<kind> <resource>',
  summary: `take the past values of a document of the ${platformWord} out of history and audit, for good`,
  flags: { reason: { type: 'string', summary: 'why; needed, and kept' } },
  async run({ session, args: { kind, resource }, flags, answer }) {
    const reason = textOf(flags.reason);
    if (reason === undefined) throw new Misused('--reason is needed: it is kept');
    const type = platformConfigTypes.find((name) => name === kind);
    if (type === undefined) throw new Misused(`a kind is one of ${platformConfigTypes.join(', ')}`);
    const body = { config_type: type, resource_id: resource!, reason };
    const purged = await session.call('global-config.history.purge', { body });
    const still = purged.still_in_force ? '; one of the values is the one of now, and stays' : '';
    answer(purged, () => `purged from ${purged.entries} entries of the history${still}`);
  },
};

export const configCommands: readonly Command[] = [
  get,
  effective,
  explain,
  set,
  patch,
  unset,
  history,
  rollback,
  purge,
];

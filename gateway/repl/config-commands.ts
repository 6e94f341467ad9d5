import { contractOf, type ActionName, type ResultOf } from '../../shared/contracts/index.ts';
import { configTypes } from '../../shared/contracts/history.ts';
import { parseExactJson } from '../../shared/schema/exact-json.ts';
import {
  given,
  json,
  Misused,
  tenantIds,
  text,
  count,
  type Command,
  type Flag,
  type Run,
} from './command.ts';

/** What an operator calls a resource → the actions on it. */
const resources: Readonly<Record<string, string>> = {
  risk: 'tenant-config.risk',
  agent: 'tenant-config.agents',
  service: 'tenant-config.services',
  project: 'tenant-config.projects',
  notifications: 'tenant-config.notifications',
  global: 'global-config.entries',
  'service-type': 'global-config.service-types',
};
const names = Object.keys(resources);

/** The action on a resource, and its address from the words that follow. */
function addressed(
  resource: string,
  verb: 'get' | 'put' | 'patch',
  words: readonly string[],
): { action: ActionName; address: Record<string, string>; left: readonly string[] } {
  const prefix = resources[resource];
  if (prefix === undefined)
    throw new Misused(`there is no resource ${resource}; there are ${names.join(', ')}`);
  const { pathParams } = contractOf(`${prefix}.${verb}`)!.rest!;
  if (words.length < pathParams.length)
    throw new Misused(`${resource} needs ${pathParams.map((name) => `<${name}>`).join(' ')}`);
  return {
    action: `${prefix}.${verb}` as ActionName,
    address: Object.fromEntries(pathParams.map((name, index) => [name, words[index]!])),
    left: words.slice(pathParams.length),
  };
}

const called = (
  session: Run['session'],
  action: ActionName,
  params: Record<string, unknown>,
): Promise<unknown> => session.call(action, params as never);

const aspects: Readonly<Record<string, Flag>> = {
  agent: { type: 'string', says: 'for this agent type' },
  service: { type: 'string', says: 'on this service instance' },
  type: { type: 'string', says: 'of this service type' },
  'as-of': { type: 'string', says: 'at this revision or time' },
};
const resolve = (
  { session, words, flags }: Run,
  explain: boolean,
): Promise<ResultOf<'config-resolver.resolve'>> =>
  session.call(
    'config-resolver.resolve',
    given({
      tenant_id: words.tenant!,
      agent_type: text(flags.agent),
      service_id: text(flags.service),
      service_type: text(flags.type),
      as_of: text(flags['as-of']),
      explain: explain ? true : undefined,
    }) as never,
  );
const reason: Flag = { type: 'string', says: 'why, kept in the history' };
const dryRun: Flag = { type: 'boolean', says: 'show the changes, write nothing' };
const resource = { resource: async () => names };
const tenant = { tenant: tenantIds };

export const configCommands: readonly Command[] = [
  {
    name: 'config get',
    takes: '<resource> <address...>',
    says: `one document as stored: ${names.join(', ')}`,
    complete: { ...resource, address: tenantIds },
    async run({ session, words, rest, print }) {
      const { action, address, left } = addressed(words.resource!, 'get', rest);
      if (left.length > 0) throw new Misused(`${left[0]} is too much`);
      print(json(await called(session, action, address)));
    },
  },
  {
    name: 'config effective',
    takes: '<tenant>',
    says: 'the six layers merged',
    flags: aspects,
    complete: tenant,
    run: async (run) => run.print(json(await resolve(run, false))),
  },
  {
    name: 'config explain',
    takes: '<tenant> [key]',
    says: 'which layer decides each value, and what it shadows',
    flags: aspects,
    complete: tenant,
    async run(run) {
      const { key } = run.words;
      const { values, explain = {} } = await resolve(run, true);
      if (key !== undefined && !Object.hasOwn(explain, key))
        throw new Misused(`no layer has ${key}`);
      run.print(
        json(
          Object.fromEntries(
            Object.entries(explain)
              .filter(([name]) => key === undefined || name === key)
              .map(([name, why]) => [name, { value: values[name], ...why }]),
          ),
        ),
      );
    },
  },
  {
    name: 'config set',
    takes: '<resource> <address...> <json>',
    says: 'merge JSON into a document (RFC 7396)',
    complete: { ...resource, address: tenantIds },
    flags: {
      replace: { type: 'boolean', says: 'replace the whole document, or create it' },
      'dry-run': dryRun,
      reason,
    },
    async run({ session, words, rest, flags, print }) {
      const { action, address, left } = addressed(
        words.resource!,
        flags.replace ? 'put' : 'patch',
        rest,
      );
      if (left.length !== 1)
        throw new Misused('one JSON value is needed after the address; in a shell, in quotes');
      print(
        json(
          await called(
            session,
            action,
            given({
              ...address,
              body: parsed(left[0]!),
              reason: text(flags.reason),
              dry_run: flags['dry-run'],
            }),
          ),
        ),
      );
    },
  },
  {
    name: 'config history',
    takes: '<tenant> [revision]',
    says: 'what changed, newest first; one revision with before and after',
    complete: tenant,
    flags: {
      type: { type: 'string', says: `only ${configTypes.join(', ')}` },
      resource: { type: 'string', says: 'only this resource_id' },
      limit: { type: 'string', says: 'how many, 20 unless told' },
    },
    async run({ session, words: { tenant: id, revision }, flags, print }) {
      if (revision !== undefined) {
        print(
          json(
            await session.call('tenant-config.history.get', {
              tenant_id: id!,
              revision: number(revision),
            }),
          ),
        );
        return;
      }
      const { items } = await session.call(
        'tenant-config.history.list',
        given({
          tenant_id: id!,
          limit: count(flags.limit, 20),
          config_type: text(flags.type),
          resource_id: text(flags.resource),
        }) as never,
      );
      for (const entry of items) {
        print(
          `${entry.revision}  ${entry.changed_at}  ${entry.action} ${entry.config_type} ${entry.resource_id} by ${entry.changed_by}${entry.reason === null ? '' : `: ${entry.reason}`}`,
        );
        for (const { path, before, after } of entry.changes)
          print(`    ${path || '/'}: ${shown(before)} -> ${shown(after)}`);
      }
    },
  },
  {
    name: 'config rollback',
    takes: '<tenant> <revision>',
    says: 'restore what its resource held right after that revision',
    complete: tenant,
    flags: { 'dry-run': dryRun, reason },
    async run({ session, words: { tenant: id, revision }, flags, print }) {
      print(
        json(
          await called(
            session,
            'tenant-config.rollback',
            given({
              tenant_id: id!,
              body: given({ revision: number(revision!), reason: text(flags.reason) }),
              dry_run: flags['dry-run'],
            }),
          ),
        ),
      );
    },
  },
];

const shown = (value: unknown): string => (value === undefined ? 'nothing' : JSON.stringify(value));
const number = (word: string): number => {
  if (!/^[1-9][0-9]{0,14}$/.test(word)) throw new Misused(`${word} is not a revision`);
  return Number(word);
};

function parsed(word: string): unknown {
  try {
    return parseExactJson(word);
  } catch (error) {
    throw new Misused(`the JSON is not valid: ${(error as Error).message}`);
  }
}

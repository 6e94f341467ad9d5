/** The table of docs/security.md: what each writing action can lead to, as the contracts say it. */
import {
  consequences,
  isPower,
  type ConsequenceName,
} from '../../shared/contracts/consequences.ts';
import { isRead } from '../../shared/contracts/contract.ts';
import { contractTable } from '../../shared/contracts/index.ts';

/** Actions by what they lead to; one that is powerful for some calls only says for which. */
function actionsBy(name: ConsequenceName): string[] {
  return Object.entries(contractTable).flatMap(([action, contract]) => {
    const { leadsTo, access } = contract;
    if (leadsTo === undefined || isRead(contract) || access.level === 'internal') return [];
    if (leadsTo === name) return [`\`${action}\``];
    if (typeof leadsTo !== 'object') return [];
    if (leadsTo.power === name) return [`\`${action}\`, where ${leadsTo.where}`];
    return leadsTo.otherwise === name ? [`\`${action}\` otherwise`] : [];
  });
}

function keysOf(name: ConsequenceName): string {
  if (!isPower(name)) return "the route's";
  const { keyScope } = consequences[name].power;
  return keyScope === null ? 'no key' : `\`${keyScope}\``;
}

/** Actions that differ in their last name alone, and in no condition, are one: `a.b.{put,patch}`. */
function groupedByPrefix(actions: readonly string[]): string[] {
  const groups = new Map<string, string[]>();
  for (const action of actions) {
    const [, prefix = action, verb = ''] = /^`(.+)\.([\w-]+)`$/.exec(action) ?? [];
    groups.set(prefix, [...(groups.get(prefix) ?? []), verb]);
  }
  return [...groups].map(([prefix, verbs]) => {
    if (verbs[0] === '') return prefix;
    return `\`${prefix}.${verbs.length === 1 ? verbs[0] : `{${verbs.join(',')}}`}\``;
  });
}

/** Lines of Markdown, without a formatter's spaces. */
export const powerTable = (): string[] => [
  '| Leads to | Changes | Key scope | Actions |',
  '| --- | --- | --- | --- |',
  ...(Object.keys(consequences) as ConsequenceName[])
    .filter((name) => actionsBy(name).length > 0)
    .map((name) =>
      [
        '',
        `\`${name}\``,
        consequences[name].changes,
        keysOf(name),
        groupedByPrefix(actionsBy(name)).join('; '),
        '',
      ].join(' | '),
    )
    .map((row) => row.trim()),
];

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
  if (!isPower(name)) return 'with the scope of the route';
  const { keyScope } = consequences[name].power;
  return keyScope === null ? 'none' : `\`${keyScope}\`, where its route admits keys at all`;
}

/** Lines of Markdown, without a formatter's spaces. */
export const powerTable = (): string[] => [
  '| Leads to | Changes | People | API keys | Actions |',
  '| --- | --- | --- | --- | --- |',
  ...(Object.keys(consequences) as ConsequenceName[])
    .filter((name) => actionsBy(name).length > 0)
    .map((name) =>
      [
        '',
        `\`${name}\``,
        consequences[name].changes,
        isPower(name) ? 'signed in at most 10 minutes ago' : 'by role',
        keysOf(name),
        actionsBy(name).join('; '),
        '',
      ].join(' | '),
    )
    .map((row) => row.trim()),
];

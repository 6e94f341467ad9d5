/** The access report as one table, for programs that have no JSON: a line for each thing it says. */
import type { AccessReport } from '../../shared/contracts/access-report.ts';
import { csvLine } from '../../shared/schema/csv.ts';

const columns = [
  'kind',
  'id',
  'name',
  'email',
  'roles',
  'groups',
  'status',
  'can_act',
  'action',
  'risk_level',
  'hop',
  'right',
  'required',
  'value',
] as const;
type Line = Partial<Record<(typeof columns)[number], unknown>>;

const textOf = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
};

export function accessReportCsv(report: AccessReport): string {
  const lines: Line[] = [
    { kind: 'report', id: report.tenant_id, value: report.at },
    { kind: 'complete', status: report.complete, value: report.known_since },
    ...report.members.map(memberLine),
    ...report.service_accounts.map((account) => ({ kind: 'service_account', ...account })),
    ...report.visits.map(({ user_id: id, reason: value }) => ({ kind: 'visit', id, value })),
    ...report.groups.map(({ name, members }) => ({ kind: 'group', name, value: members })),
    ...approverLines(report),
    ...changeSetLines(report),
    ...Object.entries(report.bounds ?? {}).map(([name, value]) => ({ kind: 'bound', name, value })),
    ...Object.entries(report.platform_bounds ?? {}).map(([name, value]) => ({
      kind: 'platform_bound',
      name,
      value,
    })),
  ];
  const rows = lines.map((line) => columns.map((column) => textOf(line[column])));
  return [columns, ...rows].map(csvLine).join('');
}

const memberLine = (member: AccessReport['members'][number]): Line => ({
  kind: 'member',
  id: member.user_id,
  name: member.display_name,
  email: member.email,
  roles: member.roles,
  groups: member.groups,
  status: member.account_status === 'disabled' ? 'disabled' : member.status,
  can_act: member.can_act,
});

function approverLines({ approvals, members, service_accounts: accounts }: AccessReport): Line[] {
  const people = new Map(members.map((member) => [member.user_id, member]));
  const programs = new Map(accounts.map(({ id, name }) => [id, name]));
  return approvals.routes.flatMap(({ action, risk_level: level, chain, deciders, recipients }) => {
    const route = { action, risk_level: level, groups: chain };
    const required = level === null ? approvals.required : approvals.required[level];
    return [
      { kind: 'route', ...route, required },
      ...deciders.flatMap(({ hop, right, ids }) =>
        ids.map((id) => ({
          kind: 'approver',
          id,
          name: people.get(id)?.display_name ?? programs.get(id),
          email: people.get(id)?.email,
          ...route,
          hop,
          right,
        })),
      ),
      ...recipients.map((email) => ({ kind: 'mail_recipient', email, ...route })),
    ];
  });
}

function changeSetLines({ change_sets: { policy, approvers }, members }: AccessReport): Line[] {
  const mayApprove = new Set(approvers);
  return [
    { kind: 'change_policy', value: policy },
    ...members
      .filter(({ user_id: id }) => mayApprove.has(id))
      .map(({ user_id: id, email, display_name: name }) => ({
        kind: 'change_set_approver',
        id,
        name,
        email,
      })),
  ];
}

/**
 * Who could approve what, of the members and the configuration of one moment. The rights are those
 * of decider.ts, for an approval that is asked for then: who had just been given a right had it,
 * unless the requester had given it (given.ts).
 */
import { approverChainOf } from '../../../shared/approver-chain.ts';
import type { AccessReport } from '../../../shared/contracts/access-report.ts';
import type { ChangePolicy } from '../../../shared/contracts/change-policy.ts';
import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import { riskLevels, type RiskLevel } from '../../../shared/contracts/notifier.ts';
import { StrataError } from '../../../shared/errors.ts';
import { hasDeciderRole, rightOf } from './decider.ts';
import { recipientsOf } from './recent-changes.ts';

type Member = AccessReport['members'][number];
type Account = AccessReport['service_accounts'][number];
type Route = AccessReport['approvals']['routes'][number];
type Deciders = Route['deciders'][number];
type Routing = Pick<
  EffectiveNotifications,
  'approver_groups' | 'approval_policy' | 'escalation' | 'email'
>;

export interface Principals {
  readonly members: readonly Member[];
  readonly service_accounts: readonly Account[];
}

/** Of all routes of a report together: what a page can show and a program can keep. */
const mostDeciders = 100_000;

/** Whoever may have been disabled is listed: nobody knows that they were not able to. */
const mayAct = ({ status, can_act: canAct }: Member): boolean =>
  status === 'active' && canAct !== false;

/** Each member is looked at once: a tenant may have as many groups as people. */
export function groupsOf(
  members: readonly Member[],
  asked: readonly string[],
): AccessReport['groups'] {
  const groups = new Map(
    asked.map((name) => [name, { members: [] as string[], deciders: [] as string[] }]),
  );
  for (const member of members) {
    const decides = mayAct(member) && hasDeciderRole(member.roles);
    for (const name of member.groups) {
      const group = groups.get(name) ?? { members: [], deciders: [] };
      groups.set(name, group);
      group.members.push(member.user_id);
      if (decides) group.deciders.push(member.user_id);
    }
  }
  return [...groups.keys()].toSorted().map((name) => ({ name, ...groups.get(name)! }));
}
const idOf = ({ user_id: id }: Member): string => id;

interface Candidate {
  readonly id: string;
  readonly roles: Member['roles'];
  readonly groups: readonly string[];
}

/** Whoever has a role that decides, found by what gives them a right. */
interface Candidates {
  readonly all: readonly Candidate[];
  readonly admins: readonly Candidate[];
  readonly byGroup: ReadonlyMap<string, readonly Candidate[]>;
}

function candidatesOf(
  { members, service_accounts: accounts }: Principals,
  machines: boolean,
): Candidates {
  const people = members
    .filter(mayAct)
    .map(({ user_id: id, roles, groups }) => ({ id, roles, groups }));
  const programs = accounts
    .filter(({ status }) => machines && status === 'active')
    .map(({ id, roles }) => ({ id, roles, groups: [] }));
  const all = [...people, ...programs].filter(({ roles }) => hasDeciderRole(roles));
  const byGroup = new Map<string, Candidate[]>();
  for (const candidate of all)
    for (const name of candidate.groups) {
      const inIt = byGroup.get(name) ?? [];
      byGroup.set(name, inIt);
      inIt.push(candidate);
    }
  return { all, admins: all.filter(({ roles }) => roles.includes('tenant_admin')), byGroup };
}

/** Those whom a hop may give a right by itself: by no group, by its own, or by none with anybody. */
function newAt(
  { all, admins, byGroup }: Candidates,
  names: readonly string[],
  haveDeciders: boolean,
): readonly Candidate[] {
  if (names.length === 0) return all;
  return haveDeciders ? (byGroup.get(names.at(-1)!) ?? []) : admins;
}

/** Each where they could decide first. */
function decidersOf(candidates: Candidates, chain: readonly string[], maxHops: number): Deciders[] {
  const found = new Map<string, Deciders>();
  const known = new Set<string>();
  const lastHop = Math.min(maxHops, Math.max(0, chain.length - 1));
  for (let hop = 0; hop <= lastHop; hop += 1) {
    const names = chain.slice(0, hop + 1);
    const haveDeciders = hasDeciders(candidates, names);
    for (const { id, roles, groups } of newAt(candidates, names, haveDeciders)) {
      const right = known.has(id)
        ? null
        : rightOf({ roles, groups: [...groups] }, { names, haveDeciders });
      if (!right) continue;
      known.add(id);
      const key = `${hop} ${right}`;
      const deciders = found.get(key) ?? { hop, right, ids: [] };
      deciders.ids.push(id);
      found.set(key, deciders);
    }
  }
  return [...found.values()];
}

const hasDeciders = ({ byGroup }: Candidates, names: readonly string[]): boolean =>
  names.some((name) => byGroup.has(name));

/** Throws 413 where the routes name too many. */
export function approvalsOf(
  principals: Principals,
  { approver_groups: groups, approval_policy: policy, escalation, email }: Routing,
): AccessReport['approvals'] {
  const candidates = candidatesOf(principals, policy.machines);
  const { max_hops: maxHops, escalation_window_minutes: windowMinutes } = escalation;
  let named = 0;
  const routeOf = (action: string | null, riskLevel: RiskLevel | null): Route => {
    // An action that has groups has them at every risk.
    const chain = approverChainOf(groups, action ?? '', riskLevel ?? 'low');
    const deciders = decidersOf(candidates, chain, maxHops);
    const recipients = hasDeciders(candidates, chain.slice(0, 1))
      ? []
      : [...recipientsOf({ email })];
    named += deciders.reduce((sum, { ids }) => sum + ids.length, recipients.length);
    if (named > mostDeciders)
      throw new StrataError(
        'payload_too_large',
        `The routes of the tenant name more than ${mostDeciders} approvers together.`,
      );
    return { action, risk_level: riskLevel, chain, deciders, recipients: [...new Set(recipients)] };
  };
  const actions = Object.entries(groups.action_overrides).filter(([, asked]) => asked.length > 0);
  return {
    required: policy.required,
    allow_self: policy.allow_self,
    machines: policy.machines,
    max_hops: maxHops,
    window_minutes: windowMinutes,
    routes: [
      ...riskLevels.map((level) => routeOf(null, level)),
      ...actions.map(([action]) => routeOf(action, null)),
    ],
  };
}

/** Where the groups of a change_policy have nobody, others do not take their place. */
export function changeSetApproversOf(
  { members }: Principals,
  policy: ChangePolicy | null,
): string[] {
  const names = policy?.groups ?? [];
  return members
    .filter((member) => mayAct(member) && rightOf(member, { names, haveDeciders: true }) !== null)
    .map(idOf);
}

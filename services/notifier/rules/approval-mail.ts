/**
 * What the mails of an approval say. Pure: the approval goes in; subject, text and HTML come out.
 */
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import type { Decision, NoticeType } from '../../../shared/contracts/notifier.ts';
import { readableJson } from '../../../shared/schema/readable-json.ts';
import { minuteOf } from '../../../shared/schema/moment.ts';
import { costText } from './asked-because.ts';
import {
  defaultColor,
  layOut,
  oneLine,
  type DecisionUrls,
  type MailParts,
  type RenderedMail,
} from './mail-layout.ts';
import { asksForDecision } from './notice.ts';
import { shortened } from './notice-words.ts';

/** What a mail is made from. */
export interface ApprovalFacts {
  readonly id: string;
  readonly action: string;
  readonly risk_level: string;
  readonly title: string;
  readonly description: string | null;
  readonly resource: string | Readonly<Record<string, unknown>> | null;
  readonly cost_impact: number | null;
  readonly cost_currency?: string;
  readonly asked_because?: readonly string[];
  readonly hop: number;
  readonly max_hops: number;
  readonly current_group: string | null;
  /** Notices from before this release have the id alone. */
  readonly requested_by: {
    readonly id: string;
    readonly name?: string | null;
    readonly api_key?: { readonly name: string } | null;
  };
  readonly policy?: { readonly required: number };
  readonly approved_by?: readonly { readonly name: string }[];
  /** While it is pending; notices from before this release have none. */
  readonly what_happens?: {
    readonly approve: string;
    readonly deny: string;
    readonly silence: string;
  };
  /** ISO 8601, UTC. */
  readonly expires_at: string;
  readonly decision: {
    readonly decision: Decision;
    readonly by: string;
    readonly name?: string | null;
    readonly comment: string | null;
  } | null;
}

type Overrides = NonNullable<NonNullable<NotificationConfig['email']>['template_overrides']>;
type Branding = NonNullable<Overrides[string]['branding']>;

/** One kind of mail. `subject` and `says` may hold placeholders such as {title}. */
interface MailTemplate {
  /** Its name in the tenant's template_overrides. */
  readonly name: string;
  readonly subject: string;
  readonly says: string;
}
const templates: Readonly<Record<NoticeType, MailTemplate>> = {
  'approval.requested': {
    name: 'approval_request',
    subject: 'Approval needed: {title}',
    says: 'You are asked to approve or deny:',
  },
  'approval.escalated': {
    name: 'approval_escalated',
    subject: 'Still needs approval: {title}',
    says: 'No one has decided yet (escalation {hop} of {max_hops}). You are asked to approve or deny:',
  },
  'approval.reminded': {
    name: 'approval_reminded',
    subject: 'Reminder: {title}',
    says: 'No one has decided yet, and the time to decide ends soon. You are asked to approve or deny:',
  },
  'approval.decided': {
    name: 'approval_decided',
    subject: '{outcome}: {title}',
    says: '{outcome} by {decided_by}:',
  },
  'approval.withdrawn': {
    name: 'approval_withdrawn',
    subject: 'Withdrawn: {title}',
    says: 'No one needs this approval any more. Nothing is asked of you:',
  },
  'approval.expired': {
    name: 'approval_expired',
    subject: 'Expired: {title}',
    says: 'The time to decide has run out. Not approved:',
  },
  'approval.exhausted': {
    name: 'approval_exhausted',
    subject: 'No one decided: {title}',
    says: 'Everybody has been asked and no one decided. Not approved:',
  },
};

export interface MailOptions {
  /** The recipient's own; shown in mails that ask. */
  readonly links?: DecisionUrls | undefined;
  /** The tenant's template_overrides. */
  readonly overrides?: Overrides | undefined;
}

export function renderApprovalMail(
  type: NoticeType,
  approval: ApprovalFacts,
  { links, overrides = {} }: MailOptions = {},
): RenderedMail {
  const template = templates[type];
  const override = Object.hasOwn(overrides, template.name) ? overrides[template.name] : undefined;
  const values = placeholdersOf(approval);
  return layOut({
    subject: fill(override?.subject ?? template.subject, values),
    says: fill(template.says, values),
    title: oneLine(approval.title),
    rows: rowsOf(type, approval),
    description: approval.description?.trim() ?? '',
    links: asksForDecision(type) ? links : undefined,
    branding: brandingOf(override?.branding, values),
  });
}

/**
 * Fills in one pass, so that braces in a value are not filled again. Unknown placeholders stay as
 * they are.
 */
const fill = (text: string, values: ReadonlyMap<string, string>): string =>
  text.replaceAll(/\{([a-z_]+)\}/g, (whole, name: string) => values.get(name) ?? whole);

function resourceName(resource: ApprovalFacts['resource']): string {
  if (resource === null) return '';
  return typeof resource === 'string' ? resource : readableJson(resource);
}

/** Whoever asked, as people know them. */
export function askerOf({ id, name, api_key: key }: ApprovalFacts['requested_by']): string {
  const who = name ?? id;
  return key ? `${who} (API key ${key.name})` : who;
}

/** Whoever decided, as people know them; nothing before somebody has. */
const deciderOf = (decision: ApprovalFacts['decision']): string =>
  decision ? (decision.name ?? decision.by) : '';

/** Only where it takes several. */
function approversOf({ policy, approved_by: approvers = [] }: Omit<ApprovalFacts, 'decision'>) {
  if (policy === undefined || policy.required < 2) return '';
  const names = approvers.map(({ name }) => name).join(', ');
  const count = `${approvers.length} of ${policy.required}`;
  return names === '' ? count : `${count}: ${names}`;
}

const outcomes: Readonly<Record<Decision, string>> = { approve: 'Approved', deny: 'Denied' };

/** Characters that a placeholder shows of its value: a resource may have 32 KiB. */
const longestValue = 500;
/** Parts that a mail shows of a branding, which may have thousands. */
const mostParts = 20;

/** The placeholders of subjects and branding. */
const placeholdersOf = ({ decision, ...approval }: ApprovalFacts): ReadonlyMap<string, string> =>
  new Map(
    Object.entries({
      id: approval.id,
      title: approval.title,
      action: approval.action,
      risk_level: approval.risk_level,
      resource: resourceName(approval.resource),
      cost_impact: costText(approval),
      hop: String(approval.hop),
      max_hops: String(approval.max_hops),
      current_group: approval.current_group ?? '',
      requested_by: askerOf(approval.requested_by),
      expires_at: minuteOf(approval.expires_at),
      outcome: decision ? outcomes[decision.decision] : '',
      decided_by: deciderOf(decision),
    }).map(([name, value]) => [name, shortened(oneLine(value), longestValue)]),
  );

/** The table of a mail: label and value, without what the approval does not say. */
function rowsOf(
  type: NoticeType,
  { decision, ...approval }: ApprovalFacts,
): (readonly [string, string])[] {
  // What happens says when it ends, which may be before it expires.
  const saysExpiry = asksForDecision(type) && !approval.what_happens;
  const rows: readonly (readonly [string, string])[] = [
    ['Action', approval.action],
    ['Risk', approval.risk_level],
    ['Resource', resourceName(approval.resource)],
    ['Cost impact', costText(approval)],
    ['Why it asks', approval.asked_because?.join(' ') ?? ''],
    ['Asked by', askerOf(approval.requested_by)],
    ['Approved so far', approversOf(approval)],
    ['Group', approval.current_group ?? ''],
    ['Decide before', saysExpiry ? minuteOf(approval.expires_at) : ''],
    ['If you approve', approval.what_happens?.approve ?? ''],
    ['If you deny', approval.what_happens?.deny ?? ''],
    ['If no one decides', approval.what_happens?.silence ?? ''],
    ['Outcome', decision ? outcomes[decision.decision] : ''],
    ['Decided by', deciderOf(decision)],
    ['Comment', decision?.comment ?? ''],
    ['Approval', approval.id],
  ];
  return rows
    .map(([label, value]) => [label, oneLine(value)] as const)
    .filter(([, value]) => value !== '');
}

/**
 * Where the parts of a branding go. `name`, or a branding that is one line, stands above the text;
 * `color` and `logo_url` are for the HTML; all others stand below the text. A color or logo that
 * could be something else in HTML is not used.
 */
function brandingOf(
  branding: Branding | undefined,
  values: ReadonlyMap<string, string>,
): MailParts['branding'] {
  const parts: Readonly<Record<string, string>> =
    typeof branding === 'string' ? { name: branding } : (branding ?? {});
  const { name, color = '', logo_url: logo = '', ...others } = parts;
  return {
    above: name === undefined ? '' : oneLine(fill(name, values)),
    below: Object.values(others)
      .slice(0, mostParts)
      .map((line) => oneLine(fill(line, values))),
    color: /^#[0-9a-f]{6}$/i.test(color) ? color : defaultColor,
    logo: URL.parse(logo)?.protocol === 'https:' ? logo : '',
  };
}

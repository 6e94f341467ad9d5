/** The mails of an approval. Pure: what is known of the approval goes in, subject, text and HTML come out. */
import type { NotificationConfig } from '../../../shared/contracts/notification-config.ts';
import type { NoticeType } from '../../../shared/contracts/notifier.ts';
import {
  layOut,
  oneLine,
  type DecisionUrls,
  type MailParts,
  type RenderedMail,
} from './mail-layout.ts';

/** What mails say of an approval. */
export interface ApprovalFacts {
  readonly id: string;
  readonly action: string;
  readonly risk_level: string;
  readonly title: string;
  readonly description: string | null;
  readonly resource: string | Readonly<Record<string, unknown>> | null;
  readonly cost_impact: number | null;
  readonly hop: number;
  readonly max_hops: number;
  readonly current_group: string | null;
  readonly requested_by: { readonly id: string };
  /** ISO 8601, UTC. */
  readonly expires_at: string;
  readonly decision: {
    readonly decision: 'approve' | 'deny';
    readonly by: string;
    readonly comment: string | null;
  } | null;
}

type Overrides = NonNullable<NonNullable<NotificationConfig['email']>['template_overrides']>;
type Branding = NonNullable<Overrides[string]['branding']>;

interface Notice {
  readonly template: string;
  readonly subject: string;
  readonly says: string;
  readonly asks?: true;
}
const notices: Readonly<Record<NoticeType, Notice>> = {
  'approval.requested': {
    template: 'approval_request',
    subject: 'Approval needed: {title}',
    says: 'You are asked to approve or deny:',
    asks: true,
  },
  'approval.escalated': {
    template: 'approval_escalated',
    subject: 'Still needs approval: {title}',
    asks: true,
    says: 'Nobody has decided yet (escalation {hop} of {max_hops}). You are asked to approve or deny:',
  },
  'approval.decided': {
    template: 'approval_decided',
    subject: '{outcome}: {title}',
    says: '{outcome} by {decided_by}:',
  },
  'approval.expired': {
    template: 'approval_expired',
    subject: 'Expired: {title}',
    says: 'The time to decide has run out. Not approved:',
  },
  'approval.exhausted': {
    template: 'approval_exhausted',
    subject: 'Nobody decided: {title}',
    says: 'Everybody has been asked and nobody has decided. Not approved:',
  },
};

/** `links` are shown in mails that ask. `overrides` are the tenant's, by template name. */
export function renderApprovalMail(
  type: NoticeType,
  approval: ApprovalFacts,
  {
    links,
    overrides = {},
  }: { links?: DecisionUrls | undefined; overrides?: Overrides | undefined } = {},
): RenderedMail {
  const { template, subject, says, asks } = notices[type];
  const changes = Object.hasOwn(overrides, template) ? overrides[template] : undefined;
  const values = placeholdersOf(approval);
  return layOut({
    subject: fill(changes?.subject ?? subject, values),
    says: fill(says, values),
    title: oneLine(approval.title),
    rows: rowsOf(approval),
    description: approval.description?.trim() ?? '',
    links: asks ? links : undefined,
    branding: brandingOf(changes?.branding, values),
  });
}

/** One pass, so that a value with braces is not filled again. Unknown placeholders stay as they were written. */
const fill = (template: string, values: ReadonlyMap<string, string>): string =>
  template.replaceAll(/\{([a-z_]+)\}/g, (whole, name: string) => values.get(name) ?? whole);

const minute = (moment: string): string => `${moment.slice(0, 16).replace('T', ' ')} UTC`;
const nameOf = (resource: ApprovalFacts['resource']): string =>
  resource === null ? '' : typeof resource === 'string' ? resource : JSON.stringify(resource);
const outcomes = { approve: 'Approved', deny: 'Denied' } as const;

/** What subjects and branding may name. */
const placeholdersOf = ({ decision, ...approval }: ApprovalFacts): ReadonlyMap<string, string> =>
  new Map(
    Object.entries({
      id: approval.id,
      title: approval.title,
      action: approval.action,
      risk_level: approval.risk_level,
      resource: nameOf(approval.resource),
      cost_impact: String(approval.cost_impact ?? ''),
      hop: String(approval.hop),
      max_hops: String(approval.max_hops),
      current_group: approval.current_group ?? '',
      requested_by: approval.requested_by.id,
      expires_at: minute(approval.expires_at),
      outcome: decision ? outcomes[decision.decision] : '',
      decided_by: decision?.by ?? '',
    }).map(([name, value]) => [name, oneLine(value)]),
  );

/** Label and value, without what is not known. */
function rowsOf({ decision, ...approval }: ApprovalFacts): (readonly [string, string])[] {
  const rows: readonly (readonly [string, string])[] = [
    ['Action', approval.action],
    ['Risk', approval.risk_level],
    ['Resource', nameOf(approval.resource)],
    ['Cost impact', String(approval.cost_impact ?? '')],
    ['Asked by', approval.requested_by.id],
    ['Group', approval.current_group ?? ''],
    ['Decide before', decision ? '' : minute(approval.expires_at)],
    ['Outcome', decision ? outcomes[decision.decision] : ''],
    ['Decided by', decision?.by ?? ''],
    ['Comment', decision?.comment ?? ''],
    ['Approval', approval.id],
  ];
  return rows
    .map(([label, value]) => [label, oneLine(value)] as const)
    .filter(([, value]) => value !== '');
}

/** A line stands above the text. Of named parts `name` stands above it, `color` and `logo_url` dress the HTML, all others stand below. */
function brandingOf(
  branding: Branding | undefined,
  values: ReadonlyMap<string, string>,
): MailParts['branding'] {
  const parts: Readonly<Record<string, string>> =
    typeof branding === 'string' ? { name: branding } : (branding ?? {});
  const { name, color = '', logo_url: logo = '', ...others } = parts;
  return {
    above: name === undefined ? '' : oneLine(fill(name, values)),
    below: Object.values(others).map((line) => oneLine(fill(line, values))),
    color: /^#[0-9a-f]{6}$/i.test(color) ? color : '#1f4fbf',
    logo: URL.parse(logo)?.protocol === 'https:' ? logo : '',
  };
}

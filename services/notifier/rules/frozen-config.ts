/**
 * What is kept of a tenant's configuration when an approval is made. Everything sent for the
 * approval is sent by this, so later changes reach later approvals only. `ApprovalRow.frozen` holds
 * it sealed, because there are secrets in it.
 */
import type { EffectiveNotifications } from '../../../shared/contracts/notification-config.ts';
import type { Channel } from '../../../shared/contracts/notifier.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type { Destination } from '../schema.ts';

export type Approvers = ResultOf<'tenant-config.members.approvers'>;

/** The sections of notification_config that say how each channel sends. */
export type ChannelConfig = Pick<EffectiveNotifications, Channel>;

export const channelConfigOf = ({
  approver_groups: _groups,
  escalation: _escalation,
  approval_policy: _policy,
  ...channelConfig
}: EffectiveNotifications): ChannelConfig => channelConfig;

export interface FrozenConfig {
  readonly config: ChannelConfig;
  /** Revision of the configuration, by which a newer one ends an endpoint's pause. */
  readonly revision: number;
  /** Members of each group of the approver chain. */
  readonly groups: Approvers['groups'];
  /** Administrators of the tenant, who are told where nobody else would be. */
  readonly admins: Approvers['admins'];
  /**
   * Addresses whose links may decide without an account, in lower case. Those from before this was
   * kept have none.
   */
  readonly recipients?: readonly string[];
  /** False where the requester had Slack changed shortly before: nobody decides there. */
  readonly slack_counts?: boolean;
  /** The only channels, where the service instance names some; all of them by default. */
  readonly channels?: readonly Channel[];
  /** Groups of the chain that had somebody who could decide: after one of them no address does. */
  readonly groups_with_deciders?: readonly string[];
}

/** In place of what does not open any more: asks nobody. */
export const lostConfig: FrozenConfig = {
  config: {
    webhook: { endpoints: [] },
    email: { approval_recipients: [], default_recipients: [], from_email: '' },
  },
  revision: 0,
  groups: {},
  admins: [],
};

/**
 * What was frozen, without members who have left since: they are asked nothing more. Where a whole
 * group has left, the administrators are asked in its place, who then decide (rules/decider.ts of
 * tenant-config). Groups get nobody who joined them since, who may not decide.
 */
export function withoutLeavers(frozen: FrozenConfig, present: Approvers): FrozenConfig {
  const left = Object.entries(frozen.groups).map(([name, members]) => {
    const asked = new Set(members.map(({ user_id: id }) => id));
    const staying = (present.groups[name] ?? []).filter(({ user_id: id }) => asked.has(id));
    return [name, members.length > 0 && staying.length === 0 ? present.admins : staying] as const;
  });
  return { ...frozen, groups: Object.fromEntries(left), admins: present.admins };
}

/**
 * Whom to tell how it ended, of those who were reached: no address of a member who has left since, who
 * reads nothing of the tenant any more. Addresses that the configuration names stay.
 */
export function stayingOf(
  reached: readonly Destination[],
  { config: { email } }: Pick<FrozenConfig, 'config'>,
  present: Approvers,
): Destination[] {
  const people = [...Object.values(present.groups).flat(), ...present.admins];
  const addresses = [
    ...people.map((person) => person.email),
    ...email.approval_recipients,
    ...email.default_recipients,
  ];
  const notified = new Set(addresses.map((address) => address.toLowerCase()));
  return reached.filter(({ channel, place }) => channel !== 'email' || notified.has(place));
}

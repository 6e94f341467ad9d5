/**
 * Mail to those who wait for a change set, by its audit events. Whoever did the step is not told.
 *
 * | Step                                                        | Told                                      |
 * | ----------------------------------------------------------- | ----------------------------------------- |
 * | submitted                                                   | its groups' members, else administrators, but no author |
 * | reminded                                                    | those of them who have not approved it    |
 * | approved and not applied with that, rejected, applied, stale, suspended, failed | its authors, and whoever made their keys |
 * | applied in an emergency                                     | the members of its groups; administrators have the notice of its power |
 *
 * The mails hold nothing that an author could have written.
 */
import { In, IsNull } from 'typeorm';
import type { AuditEventFacts } from '../../../../shared/commits/commit.ts';
import type { Call, Handlers } from '../../../../shared/contract-runtime/request.ts';
import { changeSetAddress } from '../../../../shared/mail/console-links.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import { mailOf } from '../../mail/paragraphs.ts';
import type { AuthParts } from '../../parts.ts';
import { UserEntity } from '../../schema.ts';
import {
  administratorsOf,
  lastOfHour,
  mailEach,
  type EventMail,
  type Recipient,
} from './power-notices.ts';

/** What a change set's events say of it. */
interface Facts {
  readonly state: string;
  readonly apply: unknown;
  /** Who stands behind its authors, such as `user <id>`. */
  readonly authors: readonly string[];
  readonly groups: readonly string[];
  /** The ids of those who have approved it. */
  readonly approved_by: readonly string[];
}

const said: Readonly<Record<string, string>> = {
  submitted: 'waits for your approval',
  reminded: 'still waits for your approval',
  approved: 'is approved',
  rejected: 'was rejected',
  applied: 'was applied',
  stale: 'was not applied: one of its documents was written since. Rebase it',
  suspended: 'was not applied: its note says why. It can be tried again',
  failed: 'was not applied, and cannot be',
  broke_glass: 'was applied in an emergency, without your approval. Look at it, and review it',
};

function changeSetNoticeMail(
  settings: Pick<Settings, 'base_url'>,
  to: string,
  event: AuditEventFacts,
  { step, isLast }: { step: string; isLast: boolean },
): Mail {
  const where = event.tenant_id === null ? 'the platform' : `tenant ${event.tenant_id}`;
  const what = `In ${where}, a change set ${said[step]}.`;
  const mail = mailOf(to, subjects[step] ?? 'A change set', [
    [what],
    [
      `When: ${event.occurred_at}`,
      { link: changeSetAddress(settings, event.tenant_id, event.target!) },
    ],
    ...(isLast ? [lastOfHour] : []),
  ]);
  return { ...mail, tenantId: event.tenant_id };
}

const subjects: Readonly<Record<string, string>> = {
  submitted: 'A change waits for your approval',
  reminded: 'Reminder: a change waits for your approval',
};

const stepOf = ({ action }: AuditEventFacts): string => action.replace(/^changeset\./, '');

/** Whether the step leaves anybody waiting for somebody, or somebody who had waited. */
function isNotified(step: string, { state, apply }: Facts): boolean {
  // The last approval is also when it is applied, which has an event of its own.
  if (step === 'approved') return state !== 'pending' && apply !== 'on_approval';
  return step in said;
}

export function changeSetNoticeActions(parts: AuthParts) {
  const { db, settings } = parts;
  async function membersOf(tenantId: string, groups: readonly string[], call: Call) {
    const found = await call('tenant-config.members.approvers', {
      tenant_id: tenantId,
      groups: [...groups],
    });
    return Object.values(found.groups)
      .flat()
      .map(({ user_id: id, email }): Recipient => ({ id, email }));
  }

  async function recipientsOf(
    step: string,
    event: AuditEventFacts,
    call: Call,
  ): Promise<Recipient[]> {
    const { authors, groups, approved_by: approved } = event.payload as Facts;
    const ids = authors.flatMap((each) => (each.startsWith('user ') ? [each.slice(5)] : []));
    const asks = ['submitted', 'reminded', 'broke_glass'].includes(step);
    const active = { status: 'active', erasing_since: IsNull() } as const;
    if (!asks) return db.manager.findBy(UserEntity, { id: In(ids), ...active });
    const { tenant_id: tenantId } = event;
    const ofGroups = tenantId !== null && groups.length > 0;
    if (!ofGroups && step === 'broke_glass') return [];
    const all = ofGroups
      ? await membersOf(tenantId, groups, call)
      : await administratorsOf(db, settings, tenantId, call);
    const done = step === 'reminded' ? approved : [];
    return all.filter(({ id }) => !ids.includes(id) && !done.includes(id));
  }

  return {
    async 'auth.change-set-notices.send'({ body }, { call, log }) {
      const mails: EventMail[] = [];
      for (const event of body) {
        const step = stepOf(event);
        if (!isNotified(step, event.payload as Facts)) continue;
        const all = await recipientsOf(step, event, call);
        const recipients = all.filter(({ id }) => id !== event.actor.id);
        const mailTo = (address: string, isLast: boolean): Mail =>
          changeSetNoticeMail(settings(), address, event, { step, isLast });
        mails.push({ event, recipients, mailTo });
      }
      await mailEach(parts, 'change set notice', mails, log);
      return null;
    },
  } satisfies Handlers;
}

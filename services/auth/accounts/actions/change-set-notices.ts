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
import { html } from '../../../../shared/mail/html.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { UserEntity } from '../../schema.ts';
import { administratorsOf, mailWithin, type Told } from './power-notices.ts';

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

export function changeSetNoticeMail(
  settings: Pick<Settings, 'base_url'>,
  to: string,
  event: AuditEventFacts,
  { step, isLast }: { step: string; isLast: boolean },
): Mail {
  const where = event.tenant_id === null ? 'the platform' : `tenant ${event.tenant_id}`;
  const what = `In ${where}, a change set ${said[step]}.`;
  const which = changeSetAddress(settings, event.tenant_id, event.target!);
  const more = isLast ? ['More of this hour is in the audit, and is not mailed.'] : [];
  return {
    to: [to],
    subject: subjects[step] ?? 'A change set',
    text: `${[what, `When: ${event.occurred_at}\n${which}`, ...more].join('\n\n')}\n`,
    html: String(html`<p>${what}</p>
<p>When: ${event.occurred_at}<br><a href="${which}">${which}</a></p>
${more.map((line) => html`<p>${line}</p>`)}
`),
  };
}

const subjects: Readonly<Record<string, string>> = {
  submitted: 'A change waits for your approval',
  reminded: 'Reminder: a change waits for your approval',
};

const stepOf = ({ action }: AuditEventFacts): string => action.replace(/^changeset\./, '');

/** Whether the step leaves anybody waiting for somebody, or somebody who had waited. */
function isTold(step: string, { state, apply }: Facts): boolean {
  // The last approval is also when it is applied, which has an event of its own.
  if (step === 'approved') return state !== 'pending' && apply !== 'on_approval';
  return step in said;
}

export function changeSetNoticeActions({ db, settings, deferredMail }: AuthParts) {
  async function membersOf(tenantId: string, groups: readonly string[], call: Call) {
    const found = await call('tenant-config.members.approvers', {
      tenant_id: tenantId,
      groups: [...groups],
    });
    return Object.values(found.groups)
      .flat()
      .map(({ user_id: id, email }): Told => ({ id, email }));
  }

  async function toldOf(step: string, event: AuditEventFacts, call: Call): Promise<Told[]> {
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
      const sending: Promise<void>[] = [];
      for (const event of body) {
        const step = stepOf(event);
        if (!isTold(step, event.payload as Facts)) continue;
        const told = await toldOf(step, event, call);
        const people = new Map(told.map((person) => [person.id, person]));
        people.delete(event.actor.id);
        for (const person of people.values()) {
          const mail = await mailWithin(db, 'change set notice', person, (isLast) =>
            changeSetNoticeMail(settings(), person.email, event, { step, isLast }),
          );
          if (mail) sending.push(deferredMail.sent(mail, log));
        }
      }
      await Promise.all(sending);
      return null;
    },
  } satisfies Handlers;
}

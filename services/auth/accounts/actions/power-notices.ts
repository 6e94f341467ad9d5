/**
 * Mail to those concerned by what somebody powerful did (`shared/contracts/consequences.ts`): the
 * administrators of the tenant, or the platform's, and the person whose rights were changed. Their
 * own sign-in and their own keys people learn of by `mail/account-notices.ts`.
 *
 * The mails hold nothing that whoever made the change could have written, but the address of their
 * account.
 */
import { In, IsNull, type DataSource } from 'typeorm';
import type { Call, Handlers } from '../../../../shared/contract-runtime/request.ts';
import { holderOf, tryTakeShare } from '../../../../shared/commits/shares.ts';
import type { AuditEventFacts } from '../../../../shared/commits/commit.ts';
import { html } from '../../../../shared/mail/html.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import type { AuthParts } from '../../parts.ts';
import { addressOf } from '../rules/accounts.ts';
import { UserEntity, type UserRow } from '../../schema.ts';

/** To one address: a script that makes a thousand changes does not fill mailboxes. */
const mostPerHour = 20;

/** An account, and where it is told. */
export type Told = Pick<UserRow, 'id' | 'email'>;

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

/** Of their own account, or already told by a mail of its own. */
const isToldAlready = ({ action, actor, target }: AuditEventFacts): boolean =>
  (actor.type === 'user' && actor.id === target) || action === 'auth.user_recovered';

export function powerNoticeMail(
  to: string,
  event: AuditEventFacts,
  { by, isLast, frontendOrigin }: { by: string; isLast: boolean; frontendOrigin: string },
): Mail {
  const where = event.tenant_id === null ? 'the platform' : `tenant ${event.tenant_id}`;
  const what = `In ${where}, ${event.action} was done by ${by}.`;
  const when = `When: ${event.occurred_at}`;
  const which = `Audit event: ${event.id}, about ${event.target ?? 'no single thing'}`;
  const advice =
    'It changes who may sign in, what credentials may do, who approves, or what proof exists. If nobody of you meant it, end the sessions and keys of whoever did it, and undo it:';
  const more = isLast ? ['More of this hour is in the audit, and is not mailed.'] : [];
  const lines = [what, `${when}\n${which}`, advice, frontendOrigin, ...more];
  return {
    to: [to],
    subject: 'Rights were changed',
    text: `${lines.join('\n\n')}\n`,
    html: String(html`<p>${what}</p>
<p>${when}<br>${which}</p>
<p>${advice}</p>
<p><a href="${frontendOrigin}">${frontendOrigin}</a></p>
${more.map((line) => html`<p>${line}</p>`)}
`),
  };
}

/** The administrators of a tenant, or the platform's. */
export async function administratorsOf(
  db: DataSource,
  settings: () => Settings,
  tenantId: string | null,
  call: Call,
): Promise<Told[]> {
  if (tenantId === null) {
    const listed = settings().platform_admin_emails.map(addressOf);
    return db.manager.findBy(UserEntity, { email: In(listed), status: 'active' });
  }
  const { admins } = await call('tenant-config.members.approvers', {
    tenant_id: tenantId,
    groups: [],
  });
  return admins.map(({ user_id: id, email }) => ({ id, email }));
}

/**
 * The mail to somebody, which says where it is the last of the hour. Undefined where they have had
 * as many as there are in one.
 */
export async function mailWithin(
  db: DataSource,
  what: 'power notice' | 'change set notice',
  { id }: Told,
  mailOf: (isLast: boolean) => Mail,
): Promise<Mail | undefined> {
  const holder = holderOf({ type: 'user', id });
  const taken = await tryTakeShare(db, { what, holder, most: mostPerHour, seconds: 3600 });
  return taken === null ? undefined : mailOf(taken === mostPerHour);
}

export function powerNoticeActions({ db, settings, deferredMail }: AuthParts) {
  /** Who did it, and whom it was done to, by id. */
  async function accountsIn(events: readonly AuditEventFacts[]): Promise<Map<string, UserRow>> {
    const ids = events.flatMap(({ actor, target }) => [actor.id, target ?? '']).filter(isUuid);
    const users = await db.manager.findBy(UserEntity, {
      id: In([...new Set(ids)]),
      erasing_since: IsNull(),
    });
    return new Map(users.map((user) => [user.id, user]));
  }

  return {
    async 'auth.power-notices.send'({ body }, { call, log }) {
      const events = body.filter((event) => !isToldAlready(event));
      const accounts = await accountsIn(events);
      const { frontend_origin: frontendOrigin } = settings();
      const sending: Promise<void>[] = [];
      for (const event of events) {
        const { actor, target } = event;
        const admins = await administratorsOf(db, settings, event.tenant_id, call);
        // Whoever has not proved their address yet gets the invitation, and no mail beside it.
        const meant = accounts.get(target ?? '');
        const told = [...admins, ...(meant?.email_verified ? [meant] : [])];
        const by = accounts.get(actor.id)?.email ?? `${actor.type} ${actor.id}`;
        const people = new Map(told.map((person) => [person.id, person]));
        for (const person of people.values()) {
          const mail = await mailWithin(db, 'power notice', person, (isLast) =>
            powerNoticeMail(person.email, event, { by, isLast, frontendOrigin }),
          );
          if (mail) sending.push(deferredMail.sent(mail, log));
        }
      }
      await Promise.all(sending);
      return null;
    },
  } satisfies Handlers;
}

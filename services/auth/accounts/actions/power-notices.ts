/**
 * Mail to those concerned by what somebody powerful did (`shared/contracts/consequences.ts`): the
 * administrators of the tenant, or the platform's, and the person whose rights were changed. Their
 * own sign-in and their own keys people learn of by `mail/account-notices.ts`.
 *
 * The mails hold nothing that whoever made the change could have written, but the address of their
 * account.
 */
import type { Logger } from 'pino';
import { In, IsNull, type DataSource } from 'typeorm';
import { Semaphore } from '../../../../shared/concurrency/semaphore.ts';
import type { Call, Handlers } from '../../../../shared/contract-runtime/request.ts';
import { giveBackShare, holderOf, tryTakeShare } from '../../../../shared/commits/shares.ts';
import type { AuditEventFacts } from '../../../../shared/commits/commit.ts';
import { StrataError } from '../../../../shared/errors.ts';
import type { Mail } from '../../../../shared/mail/mailer.ts';
import { isUuid } from '../../../../shared/schema/uuid.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import { mailOf } from '../../mail/paragraphs.ts';
import type { AuthParts } from '../../parts.ts';
import { addressOf } from '../rules/accounts.ts';
import { UserEntity, type UserRow } from '../../schema.ts';
import { noteNotified, notifiedOf } from '../../stores/notified.ts';

/** In the last mail that somebody gets in an hour. */
export const lastOfHour = ['Further changes of this hour are in the audit, and are not mailed.'];

/** To one address: a script that makes a thousand changes does not fill mailboxes. */
const mostPerHour = 20;

/** An account, and where it is told. */
export type Recipient = Pick<UserRow, 'id' | 'email'>;

/** Of their own account, or already told by a mail of its own. */
const isAlreadyNotified = ({ action, actor, target }: AuditEventFacts): boolean =>
  (actor.type === 'user' && actor.id === target) || action === 'auth.user_recovered';

function powerNoticeMail(
  to: string,
  event: AuditEventFacts,
  { by, isLast, frontendOrigin }: { by: string; isLast: boolean; frontendOrigin: string },
): Mail {
  const where = event.tenant_id === null ? 'the platform' : `tenant ${event.tenant_id}`;
  const what = `In ${where}, ${event.action} was done by ${by}.`;
  const when = `When: ${event.occurred_at}`;
  const which = `Audit event: ${event.id}, about ${event.target ?? 'no single thing'}`;
  const advice =
    'It changes who may sign in, what credentials may do, who approves, or what proof exists. If none of you intended it, revoke the sessions and keys of who did it, and undo it:';
  const mail = mailOf(to, 'Rights were changed', [
    [what],
    [when, which],
    [advice],
    [{ link: frontendOrigin }],
    ...(isLast ? [lastOfHour] : []),
  ]);
  return { ...mail, tenantId: event.tenant_id };
}

/** The administrators of a tenant, or the platform's. */
export async function administratorsOf(
  db: DataSource,
  settings: () => Settings,
  tenantId: string | null,
  call: Call,
): Promise<Recipient[]> {
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
 * So many are on their way, as many as are sent of a tenant at a time: a group may have more people
 * than mails may wait (stores/deferred-work.ts), and those of fifty tenants (the audit's mailing.ts)
 * are to leave room for others, such as a reset link.
 */
const mostAtOnce = 3;

/**
 * So long a call begins mails, to end before it times out (shared/contracts/auth.ts): what is left is
 * sent by the next.
 */
const beginsForMs = 300_000;
/** What cannot be sent for so long after the event is left unsent. */
const usefulSeconds = 86_400;

/** Who is told of an event, and by which mail. */
export interface EventMail {
  readonly event: Pick<AuditEventFacts, 'id' | 'occurred_at'>;
  readonly recipients: readonly Recipient[];
  readonly mailTo: (address: string, isLast: boolean) => Mail;
}

/**
 * Mails each of these people, in order, who are told in the last mail of an hour that it is that.
 * Whoever has had as many as there are in one gets none. Throws where mails are to be sent by a
 * later call, which passes over those who got theirs.
 */
export async function mailEach(
  { db, deferredMail }: Pick<AuthParts, 'db' | 'deferredMail'>,
  what: 'power notice' | 'change set notice',
  mails: readonly EventMail[],
  log: Logger,
): Promise<void> {
  const turns = new Semaphore(mostAtOnce);
  const until = performance.now() + beginsForMs;
  const noticeOf = ({ event }: EventMail): string => `${what} ${event.id}`;
  const notified = await notifiedOf(db, mails.map(noticeOf));
  /** Resolves to whether it is settled. */
  const mailOne = async (
    { id, email }: Recipient,
    { mailTo }: Pick<EventMail, 'mailTo'>,
  ): Promise<boolean> => {
    if (performance.now() > until) return false;
    const share = {
      what,
      holder: holderOf({ type: 'user', id }),
      most: mostPerHour,
      seconds: 3600,
    } as const;
    const taken = await tryTakeShare(db, share);
    if (taken === null) return true;
    const isSettled = await deferredMail.sent(mailTo(email, taken === mostPerHour), log);
    if (!isSettled) await giveBackShare(db, share);
    return isSettled;
  };
  /** Resolves to whether nobody is left. */
  const mailAll = async (mail: EventMail): Promise<boolean> => {
    const people = new Map(mail.recipients.map((person) => [person.id, person]));
    const before = notified.get(noticeOf(mail)) ?? [];
    for (const id of before) people.delete(id);
    const settled = await Promise.all(
      [...people.values()].map((person) => turns.run(() => mailOne(person, mail))),
    );
    if (!settled.includes(false) || isPast(mail.event)) return true;
    const now = [...people.keys()].filter((_id, nth) => settled[nth]);
    await noteNotified(db, noticeOf(mail), [...before, ...now], usefulSeconds);
    return false;
  };
  const done = await Promise.all(mails.map(mailAll));
  if (done.includes(false))
    throw new StrataError('service_unavailable', 'Some of the mails are still to be sent.');
}

const isPast = ({ occurred_at: at }: EventMail['event']): boolean =>
  Date.now() - Date.parse(at) > usefulSeconds * 1000;

export function powerNoticeActions(parts: AuthParts) {
  const { db, settings } = parts;
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
      const events = body.filter((event) => !isAlreadyNotified(event));
      const accounts = await accountsIn(events);
      const { frontend_origin: frontendOrigin } = settings();
      const mails: EventMail[] = [];
      for (const event of events) {
        const { actor, target } = event;
        const admins = await administratorsOf(db, settings, event.tenant_id, call);
        // Whoever has not proved their address yet gets the invitation, and no mail beside it.
        const meant = accounts.get(target ?? '');
        const recipients = [...admins, ...(meant?.email_verified ? [meant] : [])];
        const by = accounts.get(actor.id)?.email ?? `${actor.type} ${actor.id}`;
        const mailTo = (address: string, isLast: boolean): Mail =>
          powerNoticeMail(address, event, { by, isLast, frontendOrigin });
        mails.push({ event, recipients, mailTo });
      }
      await mailEach(parts, 'power notice', mails, log);
      return null;
    },
  } satisfies Handlers;
}

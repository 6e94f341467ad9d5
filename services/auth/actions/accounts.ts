import { randomBytes, randomUUID } from 'node:crypto';
import { In, type DataSource } from 'typeorm';
import type { Handlers } from '../../../shared/cluster/request.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import type { Settings } from '../../../shared/settings.ts';
import { requireGood, type Passwords } from '../rules/passwords.ts';
import { UserEntity, type UserRow } from '../schema.ts';

export type Account = ResultOf<'auth.users.ensure'>;

/** Addresses are compared in lower case. */
export const addressOf = (email: string): string => email.trim().toLowerCase();

/** Whoever's verified address is listed administers the platform. */
export const platformRoles = (user: UserRow, settings: Settings): string[] =>
  user.email_verified &&
  settings.platform_admin_emails.some((listed) => addressOf(listed) === user.email)
    ? ['platform_admin']
    : [];

export const accountOf = (user: UserRow, settings: Settings): Account => ({
  id: user.id,
  email: user.email,
  display_name: user.display_name,
  platform_roles: platformRoles(user, settings),
});

export const accountActions = (db: DataSource, settings: () => Settings, passwords: Passwords) =>
  ({
    /** The password is used only where this makes the account: nobody sets another's password, or learns that an account exists. */
    async 'auth.users.ensure'({ body: { email, password, display_name } }, request) {
      if (password !== undefined) requireGood(password, '/password');
      const hash = password === undefined ? null : await passwords.hash(password);
      const address = addressOf(email);
      const id = randomUUID();
      await db.transaction(async (manager) => {
        const made = await manager.query<unknown[]>(
          `INSERT INTO auth.users VALUES ($1, $2, false, $3, $4, 'active', now()) ON CONFLICT (email) DO NOTHING RETURNING id`,
          [id, address, display_name ?? null, hash],
        );
        if (made.length > 0) {
          await recordEvents(manager, [
            auditFacts(
              {
                action: 'auth.user_created',
                tenant_id: null,
                target: id,
                payload: { email: address },
              },
              request,
            ),
          ]);
        }
      });
      return accountOf(
        await db.manager.findOneByOrFail(UserEntity, { email: address }),
        settings(),
      );
    },

    async 'auth.users.get'({ user_ids: ids }) {
      return (await db.manager.findBy(UserEntity, { id: In(ids) })).map((user) => ({
        ...accountOf(user, settings()),
        status: user.status,
      }));
    },
  }) satisfies Handlers;

/** With an empty database: the first of PLATFORM_ADMIN_EMAILS, with PLATFORM_ADMIN_PASSWORD or a random password that is told once. */
export async function ensureFirstAdmin(
  db: DataSource,
  settings: Settings,
  passwords: Passwords,
): Promise<{ email: string; password?: string } | undefined> {
  const email = settings.platform_admin_emails[0];
  if (email === undefined || (await db.manager.count(UserEntity)) > 0) return undefined;
  const random =
    settings.platform_admin_password === null ? randomBytes(18).toString('base64url') : undefined;
  const hash = await passwords.hash(settings.platform_admin_password ?? random!);
  const made = await db.query<unknown[]>(
    `INSERT INTO auth.users SELECT $1, $2, true, NULL, $3, 'active', now() WHERE NOT EXISTS (SELECT FROM auth.users)
     ON CONFLICT (email) DO NOTHING RETURNING id`,
    [randomUUID(), addressOf(email), hash],
  );
  return made.length === 0
    ? undefined
    : { email: addressOf(email), ...(random === undefined ? {} : { password: random }) };
}

/** Why a database cannot be used by a start, for operators. */
import { CannotStart, messageOf } from '../process/cannot-start.ts';
import { addressesOf } from '../settings/database-address.ts';

/** SQLSTATE class 28: invalid authorization. */
const isRefusal = (code: string): boolean => code.startsWith('28');
/** SQLSTATE: there is no such database. */
const noDatabase = '3D000';
/** SQLSTATE insufficient_privilege. */
const noPrivilege = '42501';
/** SQLSTATE protocol_violation: what a pooler says that does not know what a client asks of it. */
const protocolViolation = '08P01';

/** The database by its address, without its password. */
function nameOf(url: string): { readonly where: string; readonly user: string } {
  const addresses = addressesOf(url);
  if (!addresses.every((each) => URL.canParse(each))) return { where: 'PostgreSQL', user: '' };
  const hosts = addresses.map((each) => new URL(each).host);
  const { pathname, username } = new URL(addresses[0]!);
  return {
    where: `PostgreSQL at ${hosts.join(',')}${pathname}`,
    user: decodeURIComponent(username),
  };
}

/** In one line what is wrong with the database, where it is, and what to do. */
export function cannotUseDatabase(error: unknown, url: string): CannotStart {
  if (error instanceof CannotStart) return error;
  const { code = '', driverError } = error as { code?: string; driverError?: { code?: string } };
  const state = driverError?.code ?? code;
  const { where, user } = nameOf(url);
  const message = messageOf(error);
  const because = { cause: error };
  if (isRefusal(state))
    return new CannotStart(
      `${where} refuses the user ${user}: ${message}. Correct DATABASE_URL, or DB_USER and DB_PASSWORD.`,
      because,
    );
  if (state === noPrivilege)
    return new CannotStart(
      `${where} refuses: ${message}. Grant that to the user ${user}.`,
      because,
    );
  if (state === protocolViolation)
    return new CannotStart(
      `${where} refuses: ${message}. Set DB_POOLER=true where it is a pooler, such as PgBouncer.`,
      because,
    );
  const remedy = state === noDatabase ? 'Make the database' : 'Start it';
  return new CannotStart(
    `${where} cannot be used: ${message}. ${remedy}, or correct DATABASE_URL (DB_* where that is not set).`,
    because,
  );
}

/** The database is older than this node. */
export function notMigrated(
  missing: readonly string[],
  { url, schema }: { readonly url: string; readonly schema: string },
): CannotStart {
  const { where } = nameOf(url);
  const some = missing.length > 3 ? `${missing.slice(0, 3).join(', ')}, …` : missing.join(', ');
  return new CannotStart(
    `${where} lacks ${missing.length} migrations of the schema ${schema} (${some}). Run "npm run migrate" with the DATABASE_URL of this node, in a container --migrate, and start it again.`,
  );
}

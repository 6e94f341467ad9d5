/**
 * DATABASE_URL, which may name several servers as libpq's does (PostgreSQL manual, "Connection
 * Strings"): postgres://user:password@first:5432,second:5432/strata?target_session_attrs=read-write
 */

/** Scheme and login, hosts, and what comes after them. */
const parts = /^(postgres(?:ql)?:\/\/(?!$)(?:[^/?#\s]*@)?)([^@/?#\s]*)([/?#]\S*)?$/;

function partsOf(url: string) {
  const found = parts.exec(url);
  if (!found) return undefined;
  const [, login = '', hosts = '', rest = ''] = found;
  return { login, hosts: hosts.split(','), rest };
}

/** One address for each of the servers, in order. */
export function addressesOf(url: string): string[] {
  const found = partsOf(url);
  if (!found) return [url];
  return found.hosts.map((host) => `${found.login}${host}${found.rest}`);
}

/** Both mean the same here: a server that cannot be written to is of no use. */
const wantedAttributes = ['read-write', 'primary'];

/** What is wrong with the text. Holds no part of it, because of the password. */
export function problemOfDatabaseUrl(url: string): string | undefined {
  const found = partsOf(url);
  if (!found) return 'must be a postgres:// address without spaces';
  const { hosts, rest } = found;
  if (hosts.length > 1 && hosts.some((host) => host === '' || host.startsWith(':')))
    return 'must name a host before and after each comma';
  // Without a host pg takes its default.
  if (!hosts.every((host) => host === '' || URL.canParse(`postgres://${host}`)))
    return 'must have hosts such as name:5432, separated by commas, and in user and password %2F, %3F, %23, %40 and %25 for / ? # @ and %';
  const attribute = new URL(`postgres://localhost${rest}`).searchParams.get('target_session_attrs');
  if (attribute !== null && !wantedAttributes.includes(attribute))
    return `may have no target_session_attrs but ${wantedAttributes.join(' and ')}: Strata writes`;
  return undefined;
}

import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { Problem } from '../../../shared/errors.ts';

export type SsoProviderBody = ParamsOf<'auth.sso.providers.create'>['body'];

const loopback = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Providers compare redirect URIs as text, so only one spelling is allowed. */
function redirectProblem(text: string): string | undefined {
  const url = URL.parse(text);
  if (
    !url ||
    (url.protocol !== 'https:' && !(url.protocol === 'http:' && loopback.has(url.hostname)))
  )
    return 'must be https, or http on loopback';
  if (url.username || url.password || text.includes('?') || text.includes('#'))
    return 'must have no user name, query or fragment';
  return url.href === text ? undefined : `must be written as ${url.href}`;
}

/** What the schema of a provider can't say. */
export function ssoProviderProblems(body: SsoProviderBody): Problem[] {
  const {
    issuer,
    domains = [],
    jit_enabled: jit,
    tenant_id: tenant,
    default_roles: roles,
    redirect_uris: uris,
  } = body;
  const problems: Problem[] = [];
  if (/[?#]/.test(issuer))
    problems.push({ path: '/issuer', message: 'must have no query or fragment' });
  if (new Set(domains.map(({ domain }) => domain)).size < domains.length)
    problems.push({ path: '/domains', message: 'names a domain twice' });
  if (jit && !tenant)
    problems.push({ path: '/tenant_id', message: 'is required with jit_enabled' });
  if (jit && !roles?.length)
    problems.push({ path: '/default_roles', message: 'needs a role with jit_enabled' });
  for (const [index, uri] of uris.entries()) {
    const message = redirectProblem(uri);
    if (message) problems.push({ path: `/redirect_uris/${index}`, message });
  }
  return problems;
}

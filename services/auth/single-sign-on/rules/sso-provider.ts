/** What the schema of an identity provider cannot say. */
import type { ParamsOf } from '../../../../shared/contracts/index.ts';
import type { Problem } from '../../../../shared/errors.ts';

export type SsoProviderBody = ParamsOf<'auth.sso.providers.create'>['body'];

const loopbackHosts = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Providers compare redirect URIs as text (RFC 6749, 3.1.2.3), so only one spelling of each is
 * allowed.
 */
function redirectProblem(text: string): string | undefined {
  const url = URL.parse(text);
  const isHttps = url?.protocol === 'https:';
  const isLoopback = url?.protocol === 'http:' && loopbackHosts.has(url.hostname);
  if (!url || !(isHttps || isLoopback)) return 'must be https, or http on loopback';
  if (url.username || url.password || text.includes('?') || text.includes('#'))
    return 'must have no user name, query or fragment';
  return url.href === text ? undefined : `must be written as ${url.href}`;
}

/** Problems between the fields of a provider, or within one, by JSON Pointer. */
export function ssoProviderProblems(body: SsoProviderBody): Problem[] {
  const {
    issuer,
    domains = [],
    jit_enabled: provisions = false,
    tenant_id: tenant = null,
    default_roles: roles = [],
    redirect_uris: redirectUris,
  } = body;
  const problems: Problem[] = [];
  const distinctDomains = new Set(domains.map(({ domain }) => domain));
  if (/[?#]/.test(issuer))
    problems.push({ path: '/issuer', message: 'must have no query or fragment' });
  if (distinctDomains.size < domains.length)
    problems.push({ path: '/domains', message: 'names a domain twice' });
  if (provisions && tenant === null)
    problems.push({ path: '/tenant_id', message: 'is required with jit_enabled' });
  if (provisions && roles.length === 0)
    problems.push({ path: '/default_roles', message: 'needs a role with jit_enabled' });
  for (const [index, uri] of redirectUris.entries()) {
    const message = redirectProblem(uri);
    if (message) problems.push({ path: `/redirect_uris/${index}`, message });
  }
  return problems;
}

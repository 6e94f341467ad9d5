/** Which issuers of workload tokens the platform may list. */
import type { NewWorkloadIssuer } from '../../../../shared/contracts/auth-workload.ts';
import type { Problem } from '../../../../shared/errors.ts';
import type { Guard } from '../../../../shared/outgoing/guard.ts';
import { OutgoingError } from '../../../../shared/outgoing/outgoing-error.ts';

const keyTypes: ReadonlySet<unknown> = new Set(['RSA', 'EC', 'OKP']);
/** What only the owner of a key has: a shared secret, or the private half. */
const secretMembers = ['d', 'k', 'p', 'q', 'dp', 'dq', 'qi', 'oth'];

function* keyProblems(key: Readonly<Record<string, unknown>>): Iterable<Problem> {
  if (!keyTypes.has(key.kty)) yield { path: '/kty', message: 'must be RSA, EC or OKP' };
  if (typeof key.kid !== 'string' || key.kid === '')
    yield { path: '/kid', message: 'must name the key' };
  if (secretMembers.some((name) => Object.hasOwn(key, name)))
    yield { path: '', message: 'must be a public key: this has a private part' };
}

/**
 * An issuer whose keys are given is a name; any other is an address that is called. Problems by JSON
 * Pointer into the body.
 */
export async function issuerProblems(
  issuers: readonly NewWorkloadIssuer[],
  guard: Guard,
): Promise<Problem[]> {
  const names = issuers.map(({ issuer }) => issuer);
  const found = issuers.map(async ({ issuer, jwks }, index): Promise<Problem[]> => {
    const path = `/issuers/${index}/issuer`;
    if (names.indexOf(issuer) < index) return [{ path, message: 'is there twice' }];
    if (!isPlain(issuer))
      return [{ path, message: 'must be an https address without query and fragment' }];
    if (!jwks) return addressProblems(issuer, path, guard);
    return jwks.keys.flatMap((key, at) =>
      [...keyProblems(key)].map((each) => ({
        path: `/issuers/${index}/jwks/keys/${at}${each.path}`,
        message: each.message,
      })),
    );
  });
  return (await Promise.all(found)).flat();
}

/** OpenID Connect Core 1.0, 2. Whether http is allowed is the guard's to say. */
function isPlain(issuer: string): boolean {
  const url = URL.parse(issuer);
  return url !== null && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '';
}

async function addressProblems(issuer: string, path: string, guard: Guard): Promise<Problem[]> {
  try {
    await guard.checkUrl(issuer);
    return [];
  } catch (error) {
    if (error instanceof OutgoingError) return [{ path, message: error.message }];
    throw error;
  }
}

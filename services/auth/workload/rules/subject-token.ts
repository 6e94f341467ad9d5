/**
 * A workload's token before its signature is verified: what it says it is, read strictly, and
 * whether it could be one at all. Nothing is fetched for one that could not.
 */
import { longestSubjectToken } from '../../../../shared/contracts/auth-workload.ts';
import { parseExactJson } from '../../../../shared/schema/exact-json.ts';
import { isObject } from '../../../../shared/schema/json-pointer.ts';
import { signatureAlgorithms } from '../../rules/signature-algorithms.ts';
import type { Claims } from './trust-rules.ts';

/** Clocks of issuers may differ from ours by so many seconds. */
export const clockTolerance = 30;
/** Of platforms' tokens; one that is good for longer is a password. */
const longestLife = 24 * 3600;

/** Headers by which a token would bring its own key, or change how it is verified. */
const refusedHeaders = ['jku', 'jwk', 'x5u', 'x5c', 'crit', 'b64', 'zip', 'enc'];

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export interface SubjectToken {
  readonly kid: string;
  readonly claims: Claims & { readonly exp: number };
}

function partOf(text: string): Claims | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  try {
    const bytes = Buffer.from(text, 'base64url');
    // Else two texts would be one token.
    if (bytes.toString('base64url') !== text) return undefined;
    const value = parseExactJson(utf8.decode(bytes));
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const isTime = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0;

function areTimesGood({ exp, nbf, iat }: Claims, now: number): boolean {
  const isPast = (time: unknown): boolean =>
    time === undefined || (isTime(time) && time <= now + clockTolerance);
  return (
    isTime(exp) &&
    exp > now - clockTolerance &&
    exp <= now + longestLife &&
    isPast(nbf) &&
    isPast(iat)
  );
}

function isHeaderGood(header: Claims): header is Claims & { readonly kid: string } {
  const { alg, kid, typ } = header;
  return (
    typeof alg === 'string' &&
    signatureAlgorithms.includes(alg) &&
    typeof kid === 'string' &&
    kid !== '' &&
    (typ === undefined || (typeof typ === 'string' && /^(JWT|JOSE)$/i.test(typ))) &&
    refusedHeaders.every((name) => !Object.hasOwn(header, name))
  );
}

/** Undefined for what can't be a good token now (in seconds since 1970), whoever has signed it. */
export function readSubjectToken(text: string, now: number): SubjectToken | undefined {
  if (text.length > longestSubjectToken) return undefined;
  const [head = '', body = '', signature = '', ...more] = text.split('.');
  if (more.length > 0 || !/^[A-Za-z0-9_-]+$/.test(signature)) return undefined;
  const header = partOf(head);
  const claims = partOf(body);
  if (!header || !claims || !isHeaderGood(header) || !areTimesGood(claims, now)) return undefined;
  const { jti } = claims;
  const isJti = jti === undefined || (typeof jti === 'string' && jti !== '');
  return isJti ? { kid: header.kid, claims: claims as SubjectToken['claims'] } : undefined;
}

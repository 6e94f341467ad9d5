/** One attempt over HTTP, for what posts to an address of a tenant's. */
import { escape } from '../mail/html.ts';
import { mask } from '../security/vault.ts';
import type { HttpClient, OutgoingRequest } from './http-client.ts';
import { OutgoingError } from './outgoing-error.ts';
import { resultOfFailure, resultOfStatus, type Outcome } from './send-result.ts';

/** In bytes that are read, and in characters that are kept. */
const longestAnswer = 4096;

/** `secrets` are masked in the answer that is kept, however the receiver may have written them. */
export async function attemptOverHttp(
  client: HttpClient,
  request: OutgoingRequest,
  secrets: readonly string[],
): Promise<Outcome> {
  const started = performance.now();
  try {
    const response = await client.send({ ...request, maxResponseBytes: longestAnswer });
    const { status, headers, body, cut, durationMs } = response;
    return {
      ...resultOfStatus(status, headers['retry-after'], Date.now()),
      status,
      duration_ms: durationMs,
      answer: redact(body, cut !== null, secrets),
    };
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error;
    return {
      ...resultOfFailure(error.reason, error.message),
      status: null,
      duration_ms: Math.round(performance.now() - started),
      answer: null,
    };
  }
}

/**
 * The body as text that PostgreSQL takes, with every secret masked. Where the answer was cut, a
 * secret may have begun at its end: those characters are left out.
 */
function redact(body: Buffer, cut: boolean, secrets: readonly string[]): string {
  const spellings = secrets.filter((secret) => secret !== '').flatMap(spellingsOf);
  // Longest first: one spelling may be a part of another.
  const masked = [...new Set(spellings)].sort((a, b) => b.length - a.length);
  const text = masked.reduce(
    (rest, spelling) => rest.replaceAll(spelling, mask),
    body.toString('utf8').replaceAll('\u0000', '\uFFFD'),
  );
  const begun = cut ? Math.max(0, ...masked.map((spelling) => overlap(text, spelling))) : 0;
  // The mask may be longer than what it hides, so the text may have grown.
  const length = Math.min(text.length - begun, longestAnswer);
  return text.slice(0, length).toWellFormed();
}

/** How many characters at the end of `text` begin `spelling` without completing it. */
function overlap(text: string, spelling: string): number {
  let length = Math.min(spelling.length - 1, text.length);
  while (length > 0 && !text.endsWith(spelling.slice(0, length))) length -= 1;
  return length;
}

/** A secret as it is, in JSON, in a URL, in a form, in HTML, and in base64. */
const spellingsOf = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  new URLSearchParams([['', secret]]).toString().slice(1),
  escape(secret),
  Buffer.from(secret).toString('base64'),
];

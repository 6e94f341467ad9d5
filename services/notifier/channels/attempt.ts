import { mask } from '../../../shared/security/vault.ts';
import type { HttpClient, OutgoingRequest } from '../../../shared/outgoing/http-client.ts';
import { OutgoingError } from '../../../shared/outgoing/outgoing-error.ts';
import { judgeFailure, judgeStatus } from '../rules/answers.ts';
import type { Outcome } from './outcome.ts';

const longestAnswer = 4096;

/** One attempt over HTTP. `secrets` are whatever the answer must not show, in each form in which it may come back. */
export async function attempt(
  client: HttpClient,
  request: OutgoingRequest,
  secrets: readonly string[],
): Promise<Outcome> {
  const started = performance.now();
  try {
    const { status, headers, body, cut, durationMs } = await client.send({
      ...request,
      maxResponseBytes: longestAnswer,
    });
    return {
      ...judgeStatus(status, headers['retry-after'], Date.now()),
      status,
      duration_ms: durationMs,
      answer: redacted(body, cut !== null, secrets),
    };
  } catch (error) {
    if (!(error instanceof OutgoingError)) throw error;
    return {
      ...judgeFailure(error.reason, error.message),
      status: null,
      duration_ms: Math.round(performance.now() - started),
      answer: null,
    };
  }
}

/** Text that PostgreSQL can keep, every secret masked, and none begun where the answer was cut. */
function redacted(body: Buffer, cut: boolean, secrets: readonly string[]): string {
  const forms = [...new Set(secrets.filter((secret) => secret !== '').flatMap(spellings))].sort(
    (a, b) => b.length - a.length,
  );
  const text = forms.reduce(
    (rest, form) => rest.replaceAll(form, mask),
    body.toString('utf8').replaceAll('\u0000', '\uFFFD'),
  );
  const begun = cut ? Math.max(0, ...forms.map((form) => overlap(text, form))) : 0;
  // A mask may be longer than what it hides.
  return text.slice(0, Math.min(text.length - begun, longestAnswer)).toWellFormed();
}

/** How many characters at the end of `text` begin `form`. */
function overlap(text: string, form: string): number {
  let length = Math.min(form.length - 1, text.length);
  while (length > 0 && !text.endsWith(form.slice(0, length))) length -= 1;
  return length;
}

/** As it is, in JSON, in a URL, in a form, in HTML, and in base64. */
const spellings = (secret: string): string[] => [
  secret,
  JSON.stringify(secret).slice(1, -1),
  encodeURIComponent(secret),
  new URLSearchParams([['', secret]]).toString().slice(1),
  secret
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;'),
  Buffer.from(secret).toString('base64'),
];

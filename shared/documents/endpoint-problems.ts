/** What the schema of an endpoint can't say, whatever document it is in. */
import { isReservedHeader, type WebhookEndpoint } from '../contracts/notification-config.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';

type Path = readonly string[];
export const problemAt = (path: Path, message: string): Problem => ({
  path: pointerTo(path),
  message,
});

/** Of anything that requests are posted to. */
export const endpointProblems = (endpoint: WebhookEndpoint, path: Path): Problem[] => [
  ...urlProblems(endpoint, path),
  ...headerProblems(endpoint, path),
  ...secretProblems(endpoint, path),
];

function urlProblems(endpoint: WebhookEndpoint, path: Path): Problem[] {
  const url = URL.parse(endpoint.url);
  if (!url) return [problemAt([...path, 'url'], 'is not a URL')];
  if (url.username || url.password)
    return [problemAt([...path, 'url'], 'must not carry a user name or password; use auth')];
  return [];
}

/** Header names differ by more than case, and none is one that Strata sets or that `auth` uses. */
function headerProblems({ auth, headers = {} }: WebhookEndpoint, path: Path): Problem[] {
  const problems: Problem[] = [];
  const authHeader =
    auth?.type === 'api_key' ? (auth.header_name ?? 'X-API-Key').toLowerCase() : undefined;
  if (authHeader !== undefined && isReservedHeader(authHeader))
    problems.push(problemAt([...path, 'auth', 'header_name'], 'is a reserved header'));

  const names = Object.keys(headers);
  for (const name of names) {
    const lower = name.toLowerCase();
    const isTwice = names.some((other) => other !== name && other.toLowerCase() === lower);
    const place = [...path, 'headers', name];
    if (isReservedHeader(lower)) problems.push(problemAt(place, 'is a reserved header'));
    else if (lower === authHeader) problems.push(problemAt(place, 'is the header of auth'));
    else if (isTwice) problems.push(problemAt(place, 'is given twice'));
  }
  return problems;
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const base64Prefix = 'whsec_';

function secretProblems(endpoint: WebhookEndpoint, path: Path): Problem[] {
  const problems: Problem[] = [];
  for (const field of ['secret', 'previous_secret'] as const) {
    const secret = endpoint[field];
    if (!secret?.startsWith(base64Prefix)) continue;
    const encoded = secret.slice(base64Prefix.length);
    if (encoded === '' || !base64.test(encoded))
      problems.push(problemAt([...path, field], `must be base64 after ${base64Prefix}`));
  }
  if (endpoint.previous_secret !== undefined && endpoint.secret === undefined)
    problems.push(problemAt([...path, 'previous_secret'], 'needs a secret beside it'));
  return problems;
}

import type { Static } from 'typebox';
import type { NotificationConfig, WebhookEndpoint } from '../../../shared/contracts/notification-config.ts';
import { invalid, type Problem } from '../../../shared/errors.ts';
import { isSealed, mask, type Vault } from '../../../shared/secrets.ts';

export type Config = Static<typeof NotificationConfig>;
type Endpoint = Static<typeof WebhookEndpoint>;
type Json = Record<string, unknown>;

/** Where secrets are in an endpoint; `chat.google_chat.webhook_url` is the one outside. */
const endpointSecrets: readonly (readonly string[])[] = [['secret'], ['previous_secret'], ['auth', 'token'], ['auth', 'password'], ['auth', 'api_key']];
const headerSecrets = /authorization|token|secret|key|cookie|password/i;

const secretPaths = (endpoint: Endpoint): (readonly string[])[] =>
  [...endpointSecrets, ...Object.keys(endpoint.headers ?? {}).filter((name) => headerSecrets.test(name)).map((name) => ['headers', name])];

const at = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((found, name) => typeof found === 'object' && found !== null && Object.hasOwn(found, name) ? (found as Json)[name] : undefined, value);
function put(value: unknown, path: readonly string[], text: string): void {
  (at(value, path.slice(0, -1)) as Json)[path.at(-1)!] = text;
}

export const endpointsOf = (config: Config): { path: string; endpoint: Endpoint }[] => {
  const { webhook } = config;
  if (!webhook) return [];
  return 'endpoints' in webhook ? webhook.endpoints.map((endpoint, index) => ({ path: `/webhook/endpoints/${index}`, endpoint }))
    : [{ path: '/webhook', endpoint: webhook }];
};

const origin = (url: string): string => URL.parse(url)?.origin ?? url;

/**
 * As it is stored: every secret sealed. Where the mask is written back, what is stored stays, found by the endpoint's url, else by
 * its place. Towards another origin the mask is refused: whoever may not read a secret must not have it sent to a place of theirs.
 */
export function sealNotificationConfig(config: Config, stored: Config | null, vault: Vault, context: string): Config {
  const next = structuredClone(config);
  const problems: Problem[] = [];
  const before = stored ? endpointsOf(stored).map(({ endpoint }) => endpoint) : [];
  const keep = (path: string, kept: unknown, value: unknown, holder: unknown, where: readonly string[]): void => {
    if (typeof value !== 'string') return;
    if (value !== mask) put(holder, where, vault.seal(value, context));
    else if (isSealed(kept)) put(holder, where, kept);
    else problems.push({ path, message: 'is the mask, but nothing is stored for this endpoint: give the secret itself' });
  };
  for (const [index, { path, endpoint }] of endpointsOf(next).entries()) {
    const same = before.find(({ url }) => url === endpoint.url) ?? before[index];
    const trusted = same && origin(same.url) === origin(endpoint.url) ? same : undefined;
    for (const where of secretPaths(endpoint)) {
      keep(`${path}/${where.join('/')}`, trusted && at(trusted, where), at(endpoint, where), endpoint, where);
    }
  }
  const chat = ['chat', 'google_chat', 'webhook_url'];
  keep(`/${chat.join('/')}`, at(stored, chat), at(next, chat), next, chat);
  if (problems.length > 0) throw invalid(problems);
  return next;
}

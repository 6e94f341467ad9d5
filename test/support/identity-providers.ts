/**
 * Identity providers on loopback: an honest one (oidc-provider), and one that answers whatever a
 * test wants.
 */
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider, { type Context } from 'oidc-provider';
import MemoryAdapter from 'oidc-provider/lib/adapters/memory_adapter.js';

export interface Person {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly name?: string;
}

async function listen(): Promise<{ server: Server; url: string; close: () => Promise<void> }> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      if (server.listening)
        await new Promise((resolve) => {
          server.close(resolve);
        });
    },
  };
}

export type HonestProvider = Awaited<ReturnType<typeof startHonestProvider>>;

/** Strata as the provider is told about it. */
interface RegisteredClient {
  readonly client_id: string;
  readonly client_secret: string;
  readonly redirect_uris: string[];
}

/**
 * A provider that does what OpenID Connect says. `meet` says whom its sign-in page signs in.
 * `authorize` is the browser: it signs `person` in and gives where they are sent back to.
 */
export async function startHonestProvider(client: RegisteredClient) {
  const { server, url: issuer, close } = await listen();
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const signingKey = {
    ...privateKey.export({ format: 'jwk' }),
    kid: 'honest',
    alg: 'ES256',
    use: 'sig',
  };
  const stored = ['Interaction', 'Grant', 'Session', 'AccessToken', 'AuthorizationCode', 'IdToken'];
  const people = new Map<string, Person>();
  const provider = new Provider(issuer, {
    clients: [{ ...client, id_token_signed_response_alg: 'ES256' }],
    adapter: (model: string) => new MemoryAdapter(model),
    jwks: { keys: [signingKey] },
    ttl: Object.fromEntries(stored.map((name) => [name, 600])),
    cookies: { keys: ['a key for the tests'] },
    claims: { email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => people.get(id),
    }),
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    async loadExistingGrant({ oidc }: Context) {
      const grant = new provider.Grant({
        clientId: oidc.client.clientId,
        accountId: oidc.session.accountId,
      });
      grant.addOIDCScope('openid email profile');
      await grant.save();
      return grant;
    },
  });
  /** Whom the provider's sign-in page signs in, without asking. */
  let signsIn = '';
  const serve = provider.callback();
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (request.url?.startsWith('/interaction/'))
      void provider.interactionFinished(request, response, { login: { accountId: signsIn } });
    else serve(request, response);
  });
  const meet = (person: Person): void => {
    people.set(person.sub, person);
    signsIn = person.sub;
  };
  return {
    issuer,
    close,
    meet,
    async authorize(authorizationUrl: string, person: Person): Promise<URL> {
      meet(person);
      const cookies = new Map<string, string>();
      let next = authorizationUrl;
      while (next.startsWith(issuer)) {
        const answer = await fetch(next, {
          redirect: 'manual',
          headers: { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') },
        });
        for (const cookie of answer.headers.getSetCookie()) {
          const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!;
          cookies.set(name!, value!);
        }
        const location = answer.headers.get('location');
        if (!location) throw new Error(`${next}: ${answer.status} ${await answer.text()}`);
        next = new URL(location, next).href;
      }
      return new URL(next);
    },
  };
}

export type RogueProvider = Awaited<ReturnType<typeof startRogueProvider>>;
type Answer = (response: ServerResponse) => void;

/**
 * A provider whose metadata and endpoints answer whatever a test puts into `answers`, by path;
 * `asked` has the paths it was asked for.
 */
export async function startRogueProvider() {
  const { server, url: issuer, close } = await listen();
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const json =
    (body: unknown, status = 200): Answer =>
    (response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
  const metadata = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
  };
  const answers: Record<string, Answer> = {
    '/.well-known/openid-configuration': json(metadata),
    '/jwks': json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', use: 'sig' }] }),
  };
  const asked: string[] = [];
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { pathname } = new URL(request.url!, issuer);
    asked.push(pathname);
    request.resume();
    (answers[pathname] ?? json({ error: 'not_here' }, 404))(response);
  });
  return {
    issuer,
    metadata,
    publicKey,
    privateKey,
    answers,
    asked,
    json,
    close,
  };
}

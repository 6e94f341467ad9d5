/**
 * An issuer of workload tokens on loopback, as a platform of pipelines is: discovery, keys, and
 * whatever token a test wants, signed with a real key.
 */
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface WorkloadIssuer {
  /** As tokens name it. */
  readonly issuer: string;
  readonly publicKey: JWK;
  readonly privateKey: CryptoKey;
  /** How often its keys were asked for. */
  readonly asked: () => number;
  /** A token of now, with these claims beside or instead of the usual ones. */
  readonly sign: (claims: object, header?: object, key?: CryptoKey | Uint8Array) => Promise<string>;
  /** What it answers to discovery beside its own address. */
  metadata: object;
  keys: JWK[];
  /** The status of its answer to whoever asks for its keys. */
  keysStatus: number;
  readonly close: () => Promise<void>;
}

let numbered = 0;

export async function startWorkloadIssuer(path = ''): Promise<WorkloadIssuer> {
  const { publicKey, privateKey } = await generateKeyPair('RS256', { extractable: true });
  const jwk: JWK = {
    ...(await exportJWK(publicKey)),
    kid: 'of-the-issuer',
    alg: 'RS256',
    use: 'sig',
  };
  let asked = 0;
  const server = createServer(({ url }, response) => {
    const answers: Record<string, () => object> = {
      [`${path}/.well-known/openid-configuration`]: () => ({
        issuer: made.issuer,
        jwks_uri: `${origin}/keys`,
        ...made.metadata,
      }),
      '/keys': () => {
        asked += 1;
        return { keys: made.keys };
      },
    };
    const answer = answers[url!];
    const status = url === '/keys' ? made.keysStatus : 200;
    response.writeHead(answer ? status : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer?.() ?? {}));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const made: WorkloadIssuer = {
    issuer: origin + path,
    publicKey: jwk,
    privateKey,
    asked: () => asked,
    metadata: {},
    keys: [jwk],
    keysStatus: 200,
    async sign(claims, header = {}, key = privateKey) {
      const now = Math.floor(Date.now() / 1000);
      const usual = {
        iss: made.issuer,
        iat: now,
        nbf: now,
        exp: now + 300,
        jti: `token ${(numbered += 1)}`,
      };
      // What is undefined is left out.
      const payload = JSON.parse(JSON.stringify({ ...usual, ...claims }));
      return new SignJWT(payload)
        .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: 'of-the-issuer', ...header })
        .sign(key);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return made;
}

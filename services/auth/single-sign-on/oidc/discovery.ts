/**
 * What an identity provider says of itself: its metadata (OpenID Connect Discovery 1.0) and its
 * keys, kept for some minutes.
 */
import { LRUCache } from 'lru-cache';
import {
  allowInsecureRequests,
  ClientError,
  customFetch,
  discovery,
  type CustomFetch,
  type ExportedJWKSCache,
  type ServerMetadata,
} from 'openid-client';
import { signatureAlgorithms } from '../../rules/signature-algorithms.ts';

/** Strata as a provider knows it. */
export interface RegisteredClient {
  /** Our id of the provider. */
  readonly provider_id: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
}

export interface Discovered {
  readonly metadata: ServerMetadata;
  /** The keys as they were last fetched; absent until then. */
  jwks?: ExportedJWKSCache;
}

const keptMs = 5 * 60_000;

/** Without the signature algorithms that are not accepted, so that openid-client refuses them. */
function restricted(metadata: ServerMetadata): ServerMetadata {
  const offered = metadata.id_token_signing_alg_values_supported;
  if (!offered) return metadata;
  const accepted = offered.filter((name) => signatureAlgorithms.includes(name));
  return { ...metadata, id_token_signing_alg_values_supported: accepted };
}

/** Throws what openid-client throws, and nothing is kept then. */
export function createDiscovery() {
  const discoveredByClient = new LRUCache<string, Discovered>({ max: 1000, ttl: keptMs });

  return async (
    client: RegisteredClient,
    fetch: CustomFetch,
    { allowHttp }: { allowHttp: boolean },
  ): Promise<Discovered> => {
    const key = `${client.provider_id} ${client.issuer}`;
    const kept = discoveredByClient.get(key);
    if (kept) return kept;
    const issuer = new URL(client.issuer);
    const configuration = await discovery(issuer, client.client_id, undefined, undefined, {
      [customFetch]: fetch,
      execute: allowHttp ? [allowInsecureRequests] : [],
    });
    const metadata: ServerMetadata = configuration.serverMetadata();
    // openid-client lets some hosts name a pattern as their issuer, which any of their tenants
    // would match.
    if (new URL(metadata.issuer).href !== issuer.href)
      throw new ClientError('the provider says that it is another issuer');
    const discovered: Discovered = { metadata: restricted(metadata) };
    discoveredByClient.set(key, discovered);
    return discovered;
  };
}

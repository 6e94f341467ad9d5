/**
 * BASE_URL is the issuer of access tokens and begins the links in mails, so the nodes that use it
 * need the same one. They tell each other theirs and say in the log where these differ, because
 * nobody else would: a gateway just refuses the tokens.
 */
import type { Middleware } from 'moleculer';
import type { Logger } from 'pino';

/** What a node says of itself to the others. */
export const baseUrlMetadata = (baseUrl: string): Record<string, string> => ({ base_url: baseUrl });

/** Different ones that are said; further ones say nothing new. */
const mostSaid = 20;

export function baseUrlMiddleware(baseUrl: string, log: Logger): Middleware {
  const said = new Set<string>();
  const compare = ({ node: { id, metadata } }: NodeEvent): void => {
    const other = metadata?.base_url;
    if (typeof other !== 'string' || other === baseUrl) return;
    if (said.has(other) || said.size === mostSaid) return;
    said.add(other);
    log.warn(
      `BASE_URL is ${baseUrl} on this node and ${other} on ${id}: each refuses access tokens of the other. Set BASE_URL to one address on all nodes.`,
    );
  };
  return {
    name: 'BaseUrl',
    created({ localBus }) {
      for (const event of ['$node.connected', '$node.updated']) localBus.on(event, compare);
    },
  };
}

interface NodeEvent {
  readonly node: { readonly id: string; readonly metadata?: Readonly<Record<string, unknown>> };
}

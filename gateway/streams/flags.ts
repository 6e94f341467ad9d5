/**
 * OpenFeature's streams (OFREP, ADR 0008): all flags of a context come with the address of a stream
 * that says when to evaluate them again. It is that of effective values in the words of the
 * protocol.
 */
import type { ServiceBroker } from 'moleculer';
import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { callAs } from '../../shared/contract-runtime/request.ts';
import { addressFields, type Address } from '../../shared/contracts/effective-config.ts';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { synchronizedNow } from '../../shared/process/synchronized-clock.ts';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { credentialOf } from '../http/authenticate.ts';
import { callOf, type OwnHandlers } from '../http/own-handlers.ts';
import { windowOf, type Tickets } from './tickets.ts';

type EvaluateAll = 'config-resolver.flags.evaluate-all';
type Evaluated = ResultOf<EvaluateAll>;

/** In seconds: how long a page may be hidden before its provider hangs up. The protocol's default. */
const inactivityDelaySec = 120;

export const flagHandlers = (
  broker: ServiceBroker,
  tickets: Tickets,
  settings: LiveSettings,
): OwnHandlers => ({
  async 'config-resolver.flags.evaluate-all'(params, request) {
    const asked = params as ParamsOf<EvaluateAll>;
    const by = callOf(request);
    const evaluated = await callAs(broker, 'config-resolver.flags.evaluate-all', asked, by);
    const now = synchronizedNow();
    const of = { tenant_id: asked.tenant_id, address: evaluated.context };
    const ticket = tickets.issue(request.headers, of, now);
    if (ticket === undefined) return evaluated;
    const url = streamAt(settings.current.base_url, of, ticket);
    return {
      ...evaluated,
      eventStreams: [{ type: 'sse', url, inactivityDelaySec }],
      // With what the ticket is of, so that whoever has the same flags is sent a new address.
      tag: evaluated.tag?.replace(/"$/, `-${nameOf(request.headers, now)}"`) ?? null,
    } satisfies Evaluated;
  },
});

/** Of the credential and the window of a ticket. */
const nameOf = (headers: IncomingHttpHeaders, now: number): string =>
  hash('sha256', `${windowOf(now)} ${credentialOf(headers)}`, 'base64url').slice(0, 16);

function streamAt(
  baseUrl: string,
  { tenant_id: tenantId, address }: { readonly tenant_id: string; readonly address: Address },
  ticket: string,
): string {
  const url = new URL(`${baseUrl}/tenants/${tenantId}/ofrep/v1/events`);
  for (const name of addressFields) {
    const value = address[name];
    if (value !== undefined) url.searchParams.set(name, value);
  }
  url.searchParams.set('ticket', ticket);
  return url.href;
}

/** Security headers, as helmet sets them, and when responses may be kept. */
import http from 'node:http';
import helmet, { type HelmetOptions } from 'helmet';
import { Socket } from 'node:net';

/**
 * What helmet would set on every response with these options, worked out once: they depend on
 * nothing in the request.
 */
function headersOf(options: HelmetOptions): Readonly<Record<string, string>> {
  const request = new http.IncomingMessage(new Socket());
  const response = new http.ServerResponse(request);
  helmet(options)(request, response, (error) => {
    if (error) throw error;
  });
  const headers = Object.entries(response.getHeaders());
  return Object.fromEntries(headers.map(([name, value]) => [name, String(value)]));
}

/**
 * Has browsers come by https alone, subdomains included. Only for answers to requests that came by
 * https: over http it is forbidden (RFC 6797, section 7.2), and it would lock people out of a host
 * that has other things on http.
 */
export const httpsOnly = { 'strict-transport-security': 'max-age=31536000; includeSubDomains' };

/** For pages, each of which says what it may load. */
export const pageHeaders = headersOf({
  contentSecurityPolicy: false,
  crossOriginResourcePolicy: false,
  strictTransportSecurity: false,
});

/**
 * For JSON: without those that concern only pages, and without those that `frame-ancestors`
 * replaces. No response is kept where other callers or later reads would find it.
 */
const jsonHeaders: Readonly<Record<string, string>> = {
  'cache-control': 'private, no-cache',
  ...headersOf({
    contentSecurityPolicy: {
      useDefaults: false,
      // The last two do not follow from the first.
      directives: { defaultSrc: ["'none'"], baseUri: ["'none'"], frameAncestors: ["'none'"] },
    },
    crossOriginResourcePolicy: false,
    crossOriginOpenerPolicy: false,
    originAgentCluster: false,
    strictTransportSecurity: false,
    xDnsPrefetchControl: false,
    xDownloadOptions: false,
    xFrameOptions: false,
    xPermittedCrossDomainPolicies: false,
    xXssProtection: false,
  }),
};

/**
 * Every response has these, whoever gives it and by whichever way it is sent; pages set some of
 * them otherwise. `response-headers.ts` describes what clients read. The fast path makes all but
 * the request id once for each result.
 */
export const commonHeaders = (requestId: string): Readonly<Record<string, string>> => ({
  ...jsonHeaders,
  'x-request-id': requestId,
});

/**
 * The address of a client: its connection's, or whom TRUSTED_PROXIES name in X-Forwarded-For. Some
 * proxies name the port there, too (Azure Application Gateway does). It is another one for each
 * connection, so that it must not tell clients apart.
 */
import proxyAddr from '@fastify/proxy-addr';
import type { FastifyRequest } from 'fastify';
import type { Client } from '../../shared/contract-runtime/request.ts';

/** Whether an address is a proxy whose X-Forwarded-For is trusted, as Fastify asks it. */
export type Trust = (address: string, hop: number) => boolean;

export function trustOf(networks: readonly string[]): Trust {
  const trust = proxyAddr.compile([...networks]);
  return (address, hop) => trust(withoutPort(address), hop);
}

const ipv4AndPort = /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/;
const ipv6InBrackets = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/i;

export function withoutPort(address: string): string {
  const found = ipv4AndPort.exec(address) ?? ipv6InBrackets.exec(address);
  return found?.[1] ?? address;
}

/** Of a request, as the audit and the list of sessions show it. */
export const clientOf = ({ ip, headers }: FastifyRequest): Client => ({
  ip: withoutPort(ip),
  user_agent: headers['user-agent']?.slice(0, 500) ?? '',
});

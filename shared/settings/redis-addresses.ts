/** REDIS_URL, which may name several hosts: redis://user:password@first:6379,second:6379/0 */
const parts = /^(rediss?:\/\/(?:[^/?#\s]*@)?)([^@/?#\s]*)(\S*)$/;

/** One address for each of the hosts, in order. */
export function redisAddresses(url: string): string[] {
  const [, login, hosts = '', rest = ''] = parts.exec(url) ?? [];
  if (login === undefined) return [url];
  return hosts.split(',').map((host) => `${login}${host}${rest}`);
}

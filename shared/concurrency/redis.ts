/** The connection to Redis: a server, what Sentinels name as the primary, or a cluster. */
import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { redisAddresses } from '../settings/redis-addresses.ts';
import type { Settings } from '../settings/settings.ts';

export type RedisClient = Redis | Cluster;

const defaultPorts = { server: 6379, sentinel: 26_379 };
/** Between attempts, in milliseconds. */
const retry = (): number => 500;

/**
 * Commands fail at once while Redis is away: what it holds is short-lived, and a request must not
 * wait for it. Each script has one key, and so one slot of a cluster.
 */
export async function openRedis(url: string, settings: Settings): Promise<RedisClient> {
  const ioredis = await import('ioredis');
  const {
    redis_password: password,
    redis_sentinel: name,
    redis_sentinel_password: sentinelPassword,
    redis_cluster: isCluster,
  } = settings;
  const options: RedisOptions = {
    ...(password === null ? {} : { password }),
    maxRetriesPerRequest: 1,
    commandTimeout: 1000,
    // What answers nothing is perhaps a connection to a server that is gone without a word, which
    // TCP keeps for a quarter of an hour.
    socketTimeout: 2000,
    enableOfflineQueue: false,
    retryStrategy: retry,
    // Of a primary that has become a replica: the next connection is to the new one. And where there
    // is no such database, since the client would continue in another one.
    reconnectOnError: ({ message }) => /^READONLY |DB index/.test(message),
  };
  if (name === null && !isCluster) return withoutLeftTimer(new ioredis.Redis(url, options));

  const addresses = redisAddresses(url).map((each) => new URL(each));
  const port = name === null ? defaultPorts.server : defaultPorts.sentinel;
  const places = addresses.map((each) => ({
    host: each.hostname.replaceAll(/^\[|\]$/g, ''),
    port: Number(each.port) || port,
  }));
  const { protocol, pathname, username, password: urlPassword } = addresses[0]!;
  const tls = protocol === 'rediss:' ? { tls: {} } : {};
  const ofServer: RedisOptions = {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(urlPassword === '' ? {} : { password: decodeURIComponent(urlPassword) }),
    ...tls,
    ...options,
  };
  if (isCluster) {
    const cluster = new ioredis.Cluster(places, {
      redisOptions: ofServer,
      enableOfflineQueue: false,
      clusterRetryStrategy: retry,
      // Certificates are for names.
      dnsLookup: (address, callback) => callback(null, address),
    });
    return cluster.on('+node', withoutLeftTimer);
  }
  const redis = new ioredis.Redis({
    ...ofServer,
    db: Number(pathname.slice(1)),
    sentinels: places,
    name: name!,
    ...(sentinelPassword === null ? {} : { sentinelPassword }),
    sentinelRetryStrategy: retry,
    enableTLSForSentinelMode: protocol === 'rediss:',
    failoverDetector: true,
  });
  return withoutLeftTimer(redis);
}

/**
 * The client leaves the timer of `socketTimeout` of a connection that is lost to the next one, which
 * it then closes.
 */
function withoutLeftTimer(redis: Redis): Redis {
  const timed = redis as unknown as { socketTimeoutTimer: NodeJS.Timeout | undefined };
  return redis.on('close', () => {
    clearTimeout(timed.socketTimeoutTimer);
    timed.socketTimeoutTimer = undefined;
  });
}

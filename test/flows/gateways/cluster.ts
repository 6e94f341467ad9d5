/** The cluster of these stories: two gateways, one more, and two nodes that sign people in. */
import { afterAll, beforeAll } from '@jest/globals';
import { startCluster, type Cluster } from '../../support/cluster.ts';
import { startMailServer, type MailServer } from '../../support/mail-server.ts';
import { Client, type Running } from '../../support/strata.ts';

/** Nodes whose connection to the bus can be cut; the second is started by its story. */
export const cuttable = ['gateway-2', 'gateway-cut-off'] as const;
export let cluster: Cluster;
/** A gateway beside those of the cluster, which a story may kill. */
export let third: Running;
export let mail: MailServer;

beforeAll(async () => {
  mail = await startMailServer();
  cluster = await startCluster({
    gateways: 2,
    once: true,
    cuttable,
    environment: {
      NETWORK_RATE_LIMIT_PER_MINUTE: '1000',
      PLATFORM_ADMIN_EMAILS: 'admin@example.com,rita@example.com',
      SMTP_SERVER: '127.0.0.1',
      SMTP_PORT: String(mail.port),
      SMTP_TLS_CA: mail.certificate,
      WATCH_MAX_STREAMS_PER_CALLER: '4',
      WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
      WEBHOOK_ALLOW_HTTP: 'true',
    },
  });
  [third] = await Promise.all([
    cluster.start('gateway-3', ['gateway']),
    cluster.start('auth-2', ['auth']),
  ]);
});
afterAll(async () => {
  await cluster?.stop();
  await mail?.stop();
});

/** A client with the token of another, at a gateway. */
export const at = (gateway: number, { token }: Client): Client =>
  new Client(cluster.gateways[gateway]!.url, token);
/** Clients with a token at each of the two. */
export const everywhere = (token: string | undefined): Client[] =>
  cluster.gateways.map(({ url }) => new Client(url, token));

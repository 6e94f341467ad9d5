/** The Strata that sends these notices, and its mail server. */
import { afterAll, beforeAll } from '@jest/globals';
import { readFileSync, rmSync } from 'node:fs';
import { makeCertificate } from '../../support/certificate.ts';
import { startMailServer, type MailServer } from '../../support/mail-server.ts';
import { strataDatabase, type Database } from '../../support/postgres.ts';
import {
  adminPassword,
  signIn,
  startStrata,
  type Client,
  type Running,
} from '../../support/strata.ts';

const { folder, key, certificate } = makeCertificate();
/** Of receivers that Strata trusts. */
export const tls = () => ({ key: readFileSync(key), cert: readFileSync(certificate) });
export const frontend = 'https://app.example.com';
export let database: Database;
export let mailServer: MailServer;
export let strata: Running;
export let platform: Client;
/** Mails that are refused, by recipient: how often yet. */
export const refusals = new Map<string, number>();

beforeAll(async () => {
  database = await strataDatabase();
  mailServer = await startMailServer({
    recipient(address) {
      const left = refusals.get(address) ?? 0;
      refusals.set(address, left - 1);
      return left > 0
        ? [450, 'later']
        : address.startsWith('nobody@')
          ? [550, 'no such mailbox']
          : undefined;
    },
  });
  strata = await startStrata({
    DATABASE_URL: database.url,
    SMTP_SERVER: 'localhost',
    SMTP_PORT: String(mailServer.port),
    SMTP_TLS_CA: mailServer.certificate,
    FROM_EMAIL: 'strata@platform.example',
    MAIL_ALLOWED_DOMAINS: 'tenant.example',
    BASE_URL: 'https://strata.example.com',
    FRONTEND_ORIGIN: frontend,
    NODE_EXTRA_CA_CERTS: certificate,
    WEBHOOK_ALLOWED_NETWORKS: '127.0.0.0/8',
    APPROVAL_WEBHOOK_BACKOFF_INITIAL_SECONDS: '0',
  });
  platform = await signIn(strata.url, 'admin@example.com', adminPassword);
});
afterAll(async () => {
  await strata?.stop('SIGKILL');
  await mailServer?.stop();
  await database?.drop();
  rmSync(folder, { recursive: true });
});

/** A real mail server on loopback, with a certificate made for it, that keeps what it is sent. */
import { EventEmitter, once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { makeCertificate } from './certificate.ts';
import { addMailbox } from './mailboxes.ts';

export interface ReceivedMail {
  readonly from: string;
  readonly to: string[];
  readonly secure: boolean;
  readonly user: string | undefined;
  readonly raw: string;
  readonly mail: Email;
}
/** The SMTP reply with which a step refuses its value; undefined accepts it. */
type Refusal = (value: string) => readonly [code: number, text: string] | undefined;

export interface MailServerOptions extends SMTPServerOptions {
  readonly recipient?: Refusal;
  readonly message?: Refusal;
  /** The only login that is accepted; without it none is needed. */
  readonly login?: { readonly user: string; readonly pass: string };
}

const reply = ([responseCode, text]: readonly [number, string]): Error =>
  Object.assign(new Error(text), { responseCode });

export async function startMailServer({
  recipient,
  message,
  login,
  ...options
}: MailServerOptions = {}) {
  const { folder, key, certificate } = makeCertificate();
  const received: ReceivedMail[] = [];
  const connections: string[] = [];
  const events = new EventEmitter();
  const server = new SMTPServer({
    key: readFileSync(key),
    cert: readFileSync(certificate),
    authOptional: login === undefined,
    disableReverseLookup: true,
    closeTimeout: 100,
    logger: false,
    onConnect(session, done) {
      connections.push(session.id);
      done();
    },
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.pass) done(null, { user: username! });
      // As some servers do, it echoes the password.
      else done(reply([535, `no such login: ${username} ${password}`]));
    },
    onRcptTo({ address }, _session, done) {
      const refused = recipient?.(address);
      done(refused && reply(refused));
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.once('end', async () => {
        const raw = Buffer.concat(chunks).toString();
        const refused = message?.(raw);
        if (refused) {
          done(reply(refused));
          return;
        }
        const mail = await PostalMime.parse(raw);
        const { mailFrom, rcptTo } = session.envelope;
        received.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
          secure: session.secure,
          user: session.user as string | undefined,
          raw,
          mail,
        });
        events.emit('received');
        done();
      });
    },
    ...options,
  });
  // A client that goes away in the middle is a case under test, not a failure of the server.
  server.on('error', () => {});
  await once(server.listen(0, '127.0.0.1'), 'listening');

  const removeMailbox = addMailbox(async () =>
    received.map(({ to, mail }) => ({ to, text: mail.text ?? '' })),
  );

  return {
    port: (server.server.address() as AddressInfo).port,
    /** File with the certificate that it shows, for SMTP_TLS_CA. */
    certificate,
    received,
    connections,
    /** Resolves with all mails once there are `count` of them. */
    async mails(count: number): Promise<readonly ReceivedMail[]> {
      while (received.length < count)
        await once(events, 'received', { signal: AbortSignal.timeout(60_000) });
      return received;
    },
    async stop(): Promise<void> {
      removeMailbox();
      await new Promise<void>((done) => {
        server.close(done);
      });
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
export type MailServer = Awaited<ReturnType<typeof startMailServer>>;

/** This node's connection to NATS: how it is made, and whether it is there. */
import { Transporters, type BrokerOptions, type ServiceBroker } from 'moleculer';
import {
  connect,
  credsAuthenticator,
  ErrorCode,
  nkeyAuthenticator,
  type ConnectionOptions,
  type NatsConnection,
} from 'nats';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import type { Logger } from 'pino';
import { CannotStart, messageOf } from '../process/cannot-start.ts';
import { isNatsEncrypted, type Settings } from '../settings/settings.ts';

/** Null without NATS_URL: then all services are in one process. */
export const natsTransporter = (settings: Settings): BrokerOptions['transporter'] =>
  settings.nats_url === null ? null : { type: 'NATS', options: natsOptions(settings) };

function natsOptions(settings: Settings): ConnectionOptions {
  const { nats_token: token } = settings;
  const { user, password } = natsLogin(settings);
  const servers = settings.nats_url!.split(',');
  return {
    // Not as `url`: Moleculer takes user and password from it, and overwrites these with nothing
    // where it has none.
    servers,
    ...(user ? { user, pass: password } : {}),
    ...(token ? { token } : {}),
    ...natsKey(settings),
    // The client takes tls:// for nats://, and connects in clear, unless it is told.
    ...(isNatsEncrypted(settings) ? { tls: natsTls(settings) } : {}),
    reconnectTimeWait: 250,
    // For a handshake. A server that accepts a connection and says nothing is given up, and the
    // next attempt may reach it.
    timeout: 2000,
    maxReconnectAttempts: -1,
    ignoreAuthErrorAbort: true,
    waitOnFirstConnect: true,
    // A server that is silent for three of these is left. Without another there is nowhere to go.
    pingInterval: servers.length > 1 ? 1000 : 5000,
    maxPingOut: 2,
  };
}

/** Who proves by a key who it is: by that of an account's credentials, or by a seed alone. */
function natsKey({
  nats_creds: file,
  nats_nkey_seed: seed,
}: Settings): Pick<ConnectionOptions, 'authenticator'> {
  if (file !== null) return { authenticator: credsAuthenticator(readNamed('NATS_CREDS', file)) };
  if (seed !== null) return { authenticator: nkeyAuthenticator(Buffer.from(seed)) };
  return {};
}

/** A file that the client would not find before a server answers, which it then blames. */
function readNamed(variable: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CannotStart(`${variable} names ${file}, which cannot be read (${code})`);
  }
}

function natsTls({
  nats_tls_ca: caFile,
  nats_tls_cert: certFile,
  nats_tls_key: keyFile,
}: Settings) {
  const files = { NATS_TLS_CA: caFile, NATS_TLS_CERT: certFile, NATS_TLS_KEY: keyFile };
  for (const [variable, file] of Object.entries(files)) if (file) readNamed(variable, file);
  return { ...(caFile && { caFile }), ...(certFile && keyFile && { certFile, keyFile }) };
}

/** A node that waits for NATS, or for a node there, says so after this time. */
export const reportAfterMs = 2000;
/** One that waits for NATS says so again at each further one. */
const reportAgainMs = 30_000;

/**
 * Says in the log why NATS cannot be used while a node waits for it, since the client tries in
 * silence. Returns how to stop, for when the node is connected.
 */
export function reportWaiting(settings: Settings, log: Logger): () => void {
  if (settings.nats_url === null) return () => {};
  const hosts = settings.nats_url.split(',').map((url) => new URL(url).host);
  const where = `NATS at ${hosts.join(', ')} (NATS_URL)`;
  let isOver = false;
  let timer = setTimeout(() => void report(), reportAfterMs);
  async function report(): Promise<void> {
    const reason = await whyAway(settings);
    if (isOver) return;
    if (reason) log.warn(`${where} cannot be used: ${reason}. This node waits for it.`);
    timer = setTimeout(() => void report(), reportAgainMs);
  }
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Tries once. Undefined where a connection can be had. */
async function whyAway(settings: Settings): Promise<string | undefined> {
  try {
    const connection = await connect({
      ...natsOptions(settings),
      reconnect: false,
      waitOnFirstConnect: false,
      ignoreAuthErrorAbort: false,
    });
    await connection.close();
    return undefined;
  } catch (error) {
    const { code, chainedError } = error as { code?: string; chainedError?: Error };
    if (code === ErrorCode.AuthorizationViolation)
      return 'it refuses the login; correct NATS_USER and NATS_PASSWORD, NATS_TOKEN, NATS_CREDS or NATS_NKEY_SEED';
    const message = messageOf(error);
    if (code === ErrorCode.ServerOptionNotAvailable)
      return `it does not offer ${message}; turn that on there, or correct NATS_URL and NATS_TLS_CA`;
    // The client's own message is its code, and the cause stands apart from it.
    return `${chainedError?.message ?? message}; start it, or correct NATS_URL`;
  }
}

/** NATS_USER and NATS_PASSWORD, else what the first address names. */
function natsLogin({ nats_url: url, nats_user: user, nats_password: password }: Settings) {
  if (user !== null) return { user, password: password ?? '' };
  const first = new URL(url!.split(',')[0]!);
  return {
    user: decodeURIComponent(first.username),
    password: decodeURIComponent(first.password),
  };
}

/**
 * The client behind the broker's transporter; undefined before it has connected, and without NATS.
 */
export function natsConnectionOf(broker: ServiceBroker): NatsConnection | undefined {
  const transporter = broker.transit?.tx;
  return transporter instanceof Transporters.NATS ? transporter.client : undefined;
}

/**
 * A connection that is back within this time was a blip: what is to be sent meanwhile is sent late
 * rather than refused.
 */
const blipMs = 1000;

/**
 * Whether the connection is there, as the NATS client sees it. Moleculer notices neither that it
 * drops nor that it comes back, and what others broadcast in between never arrives.
 */
export class Bus {
  /** `refused`: packets that were not from a node of Strata's, or had arrived before. */
  readonly counters = { drops: 0, refused: 0 };
  readonly #log: Logger;
  #lostAt: number | undefined;
  /** Resolves at the end of the blip, whichever it is. */
  #blip = { over: Promise.resolve(), end: (): void => {} };

  constructor(log: Logger) {
    this.#log = log;
  }

  connected(): boolean {
    return this.#lostAt === undefined;
  }

  /** Whether it has been gone for so long that a call over it would only run into its time-out. */
  away(): boolean {
    return this.#lostAt !== undefined && performance.now() - this.#lostAt >= blipMs;
  }

  /** Resolves as soon as the connection is there; where it is not back soon, once it is away. */
  returned(): Promise<void> {
    return this.#blip.over;
  }

  /** Follows the connection until it is closed for good, which is when this resolves. */
  async watch(connection: NatsConnection, onReturn: () => void): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === 'disconnect') this.#noteLoss();
      else if (type === 'reconnect') this.#noteReturn(onReturn);
    }
  }

  #noteLoss(): void {
    if (this.#lostAt !== undefined) return;
    this.#lostAt = performance.now();
    this.#beginBlip();
    this.counters.drops += 1;
    this.#log.warn('the connection to NATS is lost; broadcasts do not arrive');
  }

  #beginBlip(): void {
    const { promise: over, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, blipMs);
    this.#blip = {
      over,
      end() {
        clearTimeout(timer);
        resolve();
      },
    };
  }

  #noteReturn(onReturn: () => void): void {
    if (this.#lostAt === undefined) return;
    const lostForMs = Math.round(performance.now() - this.#lostAt);
    this.#lostAt = undefined;
    this.#blip.end();
    this.#log.warn(
      { ms: lostForMs },
      'the connection to NATS is back; the change feed has what was missed',
    );
    onReturn();
  }
}

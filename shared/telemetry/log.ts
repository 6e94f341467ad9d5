/** The log of a node: JSON lines, without secrets. */
import type { BrokerOptions, LogLevels } from 'moleculer';
import { pino, type Logger, type LoggerOptions } from 'pino';

/**
 * Fields of these names are masked, down to two levels below the top, should one ever be logged.
 */
const secretNames = [
  'password',
  'secret',
  'token',
  'access_token',
  'refresh_token',
  'api_key',
  'credential',
  'authorization',
  'cookie',
  'client_secret',
  'secret_key',
];

interface LogSettings {
  readonly log_level: string;
  readonly node_id: string;
}

const logOptions = (settings: LogSettings): LoggerOptions => ({
  level: settings.log_level,
  base: { node: settings.node_id },
  timestamp: () => `,"time":"${new Date().toISOString()}"`,
  formatters: { level: (label) => ({ level: label }) },
  redact: {
    paths: secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
    censor: '********',
  },
  serializers: { err: describeError },
});

/** One for all logs of the process, so that their lines keep their order; nothing is lost at an exit. */
const standardOutput = pino.destination({ dest: 1, sync: true });

/** Its `level` may be set later. That of a child stays as it was made. */
export const createLog = (settings: LogSettings): Logger =>
  pino(logOptions(settings), standardOutput);

/** Pino's levels, the severest first; also Moleculer's. */
const levels: readonly LogLevels[] = ['fatal', 'error', 'warn', 'info', 'debug', 'trace'];

/**
 * Moleculer's log, as part of this one. At `info` it would log every service and node that comes
 * and goes, so it begins at `warn` then.
 */
export function brokerLog(log: Logger): Pick<BrokerOptions, 'logger' | 'logLevel'> {
  const isLogged = (level: LogLevels): boolean =>
    log.isLevelEnabled(level) && !(level === 'info' && log.level === 'info');
  const createLogger = (_level: string, bindings: Record<string, unknown>): object => {
    // It keeps the level that it is made with, so it has the lowest, and the log's own is asked
    // each time.
    const child = log.child(bindings, { level: 'trace' });
    const methods = levels.map((level) => {
      const write = child[level].bind(child) as (...given: unknown[]) => void;
      const writeWhereLogged = (...given: unknown[]): void => {
        if (isLogged(level)) write(...given);
      };
      return [level, writeWhereLogged];
    });
    return Object.fromEntries(methods) as object;
  };
  return { logger: { type: 'Pino', options: { createLogger } }, logLevel: 'trace' };
}

/** Moleculer's errors, and with them Strata's, have their HTTP status as `code`. */
const isRefusal = (code: unknown): boolean => typeof code === 'number' && code < 500;

/**
 * What is logged of an error and its causes. Other fields are left out: those of a failed query
 * have its parameters, which are customers' values.
 */
export function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const { code, type } = error as { code?: unknown; type?: unknown };
  return {
    name,
    code,
    type,
    message,
    // A refusal is an answer, and nobody looks for its origin.
    ...(isRefusal(code) ? {} : { stack }),
    ...(cause === undefined ? {} : { cause: describeError(cause) }),
  };
}

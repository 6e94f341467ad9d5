/** The log of a node: JSON lines, without secrets. */
import { pino, type Logger, type LoggerOptions } from 'pino';

/** Fields of these names are masked, down to two levels below the top, should one ever be logged. */
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

export const logOptions = (settings: LogSettings): LoggerOptions => ({
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

export const createLog = (settings: LogSettings): Logger => pino(logOptions(settings));

/**
 * What is logged of an error and its causes. Other fields are left out: those of a failed query have its parameters, which are
 * customers' values.
 */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const { code, type } = error as { code?: unknown; type?: unknown };
  return {
    name,
    code,
    type,
    message,
    stack,
    ...(cause === undefined ? {} : { cause: describeError(cause) }),
  };
}

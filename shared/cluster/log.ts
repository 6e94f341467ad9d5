import { pino, type Logger, type LoggerOptions } from 'pino';

const secret = [
  'password',
  'secret',
  'token',
  'access_token',
  'refresh_token',
  'api_key',
  'authorization',
  'cookie',
  'client_secret',
  'secret_key',
];

/** JSON lines; whatever carries a secret's name is taken out, two levels deep, should one ever be logged. */
export const logOptions = (settings: { log_level: string; node_id: string }): LoggerOptions => ({
  level: settings.log_level,
  base: { node: settings.node_id },
  timestamp: () => `,"time":"${new Date().toISOString()}"`,
  formatters: { level: (label) => ({ level: label }) },
  redact: {
    paths: secret.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
    censor: '********',
  },
  serializers: { err: describeError },
});

/** Name, code, message and stack of an error and its causes. Queries keep their text and lose their parameters, which hold values. */
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

export const createLog = (settings: { log_level: string; node_id: string }): Logger =>
  pino(logOptions(settings));

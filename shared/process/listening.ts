/** Why a port cannot be listened on, for operators. */
import { CannotStart, messageOf } from './cannot-start.ts';
import { bracketed } from '../settings/settings.ts';

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** The setting that the port is from. */
  readonly variable: 'PORT' | 'METRICS_PORT';
}

const addressRemedy =
  'Set HOST to an address of this machine, to 0.0.0.0 for all of them, or to 127.0.0.1 for clients on this machine alone.';

/** The error of a server that cannot listen, in words, with what can be done about it. */
export function cannotListen(error: unknown, { host, port, variable }: ListenAddress): CannotStart {
  const { code } = error as NodeJS.ErrnoException;
  const at = `${bracketed(host)}:${port}`;
  const reasons: Readonly<Record<string, string>> = {
    EADDRINUSE: `${at} is taken by another program, perhaps another Strata. Stop it, or set ${variable} to another port.`,
    EACCES: `This user may not listen on ${at} (EACCES). Set ${variable} to 1024 or more, or give Strata the capability CAP_NET_BIND_SERVICE.`,
    EADDRNOTAVAIL: `HOST is ${host}, which is no address of this machine. ${addressRemedy}`,
    ENOTFOUND: `HOST is ${host}, a name without an address. ${addressRemedy}`,
    EAI_AGAIN: `HOST is ${host}, whose address cannot be looked up now. ${addressRemedy}`,
  };
  const reason = reasons[code ?? ''] ?? `${messageOf(error)}. Look at HOST and ${variable}.`;
  return new CannotStart(reason, { cause: error });
}

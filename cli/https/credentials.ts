/**
 * What a command line acts with: the gateway's address, and a key or a stored sign-in for just that
 * address.
 */
import { readFileSync } from 'node:fs';
import type { Flag, Flags } from '../command.ts';
import { fileProblem } from '../output.ts';
import { Failed } from '../session.ts';
import { textOf } from '../typed.ts';
import { SignIns } from './sign-ins.ts';

/**
 * What may be in every line. No secret does: other people of the machine see command lines, and
 * shells keep them.
 */
export const options = {
  url: { type: 'string', summary: 'where Strata is; STRATA_URL by default' },
  tenant: {
    type: 'string',
    summary: 'the tenant by name or id; STRATA_TENANT, else that of the key or the sign-in',
  },
  'api-key-file': {
    type: 'string',
    summary: 'a file with the API key, - for stdin; else STRATA_API_KEY, else the sign-in',
  },
  help: { type: 'boolean', summary: 'tell the flags of a command' },
} as const satisfies Record<string, Flag>;

export interface Credentials {
  /** Without a slash at the end. Throws Failed. */
  readonly url: () => string;
  /** The tenant's name or id, where one is told. */
  readonly tenant: string | undefined;
  /** A key that is told; a stored sign-in counts where there is none. Throws Failed. */
  readonly apiKey: () => string | undefined;
  readonly signIns: SignIns;
}

type Environment = Readonly<Record<string, string | undefined>>;

export function credentialsOf(flags: Flags, environment: Environment): Credentials {
  const variable = (name: string): string | undefined => environment[name] || undefined;
  const signIns = new SignIns(environment);
  const keyFile = textOf(flags['api-key-file']);
  let read: string | undefined;
  function apiKey(): string | undefined {
    if (keyFile !== undefined) read ??= keyOf(textIn(keyFile), `the file ${keyFile}`);
    else if (variable('STRATA_API_KEY') !== undefined)
      read ??= keyOf(environment.STRATA_API_KEY!, 'STRATA_API_KEY');
    return read;
  }
  return {
    signIns,
    apiKey,
    tenant: textOf(flags.tenant) ?? variable('STRATA_TENANT'),
    url() {
      const said = textOf(flags.url) ?? variable('STRATA_URL');
      if (said !== undefined) return urlOf(said, environment.STRATA_ALLOW_HTTP === 'true');
      // A key of somewhere else is not sent to where somebody once signed in.
      const last = apiKey() === undefined ? signIns.last() : undefined;
      if (last !== undefined) return last;
      throw new Failed(
        'no_url',
        'where is Strata? Give --url or STRATA_URL, such as https://strata.example',
      );
    },
  };
}

function textIn(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new Failed('unreadable', `the file of the API key is not read: ${fileProblem(error)}`);
  }
}

/** Throws Failed, which does not say what it looked at. */
export function keyOf(text: string, from: string): string {
  const key = text.trim();
  if (!/^[\x21-\x7e]{1,500}$/.test(key)) throw new Failed('no_key', `${from} holds no API key`);
  return key;
}

/** Throws Failed. */
export function urlOf(text: string, allowHttp: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw new Failed('bad_url', `${text} is no address; it looks like https://strata.example`);
  if (url.username !== '' || url.password !== '')
    throw new Failed('bad_url', 'the address holds a password; sign in with strata login');
  const isHere = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'http:' && !isHere && !allowHttp)
    throw new Failed(
      'not_https',
      `${url.origin} is not https, so others could read the key; STRATA_ALLOW_HTTP=true says that it may be`,
    );
  return url.origin + url.pathname.replace(/\/+$/, '');
}

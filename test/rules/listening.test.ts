/** Why a port cannot be listened on, also for errors that a test cannot bring about everywhere. */
import { expect, test } from '@jest/globals';
import { cannotListen } from '../../shared/process/listening.ts';

test.each([
  ['EADDRINUSE', '::1', 80, /^\[::1\]:80 is taken .* set PORT to another port\.$/],
  ['EACCES', '0.0.0.0', 443, /^This user may not listen on 0\.0\.0\.0:443 .*PORT to 1024 or more/],
  ['EADDRNOTAVAIL', '10.9.9.9', 80, /^HOST is 10\.9\.9\.9, which is no address of this machine/],
  ['ENOTFOUND', 'a.invalid', 80, /^HOST is a\.invalid, a name without an address/],
  ['EAI_AGAIN', 'a.invalid', 80, /^HOST is a\.invalid, whose address cannot be looked up/],
  ['ENOBUFS', '::1', 80, /^listen ENOBUFS\. Look at HOST and PORT\.$/],
])('%s', (code, host, port, line) => {
  const error = Object.assign(new Error(`listen ${code}`), { code, syscall: 'listen' });
  const { message, cause } = cannotListen(error, { host, port, variable: 'PORT' });
  expect(message).toMatch(line);
  expect(cause).toBe(error);
});

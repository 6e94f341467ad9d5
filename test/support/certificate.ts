import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { binary } from './servers.ts';

/**
 * Makes a key and a self-signed certificate for loopback, as files in a folder that the caller
 * removes.
 */
export function makeCertificate(): {
  readonly folder: string;
  readonly key: string;
  readonly certificate: string;
} {
  const folder = mkdtempSync(join(tmpdir(), 'strata-tls-'));
  const key = join(folder, 'key.pem');
  const certificate = join(folder, 'certificate.pem');
  execFileSync(
    binary('openssl'),
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost,IP:127.0.0.1',
      '-keyout',
      key,
      '-out',
      certificate,
    ],
    { stdio: 'ignore' },
  );
  return { folder, key, certificate };
}

/** Embedded mode's own SECRET_KEY, so that a first start needs none from the operator. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingsGroups } from '../settings-table.ts';
import { SettingsInvalid } from '../settings.ts';

const { form } = settingsGroups['Keys and sign-in'].secret_key;

export interface SecretKeyFile {
  readonly key: string;
  /** Whether this call wrote the file. */
  readonly made: boolean;
}

/**
 * Reads `secret.key` in `dataDir`, and writes it first where there is none, readable by its owner
 * only. Throws SettingsInvalid where the file is empty or cut short: it is not replaced, because a
 * new key could not read what the old one sealed.
 */
export function ensureSecretKey(dataDir: string): SecretKeyFile {
  mkdirSync(dataDir, { recursive: true });
  const file = join(dataDir, 'secret.key');
  const made = existsSync(file) ? false : writeKey(file);
  const key = readFileSync(file, 'utf8').trim();
  if (key === '') {
    const message = `cannot be read: ${file} is empty; restore it, or set SECRET_KEY`;
    throw new SettingsInvalid([{ variable: 'SECRET_KEY', message }]);
  }
  if (!form.fits(key))
    throw new SettingsInvalid([{ variable: 'SECRET_KEY', message: `${form.says}; see ${file}` }]);
  return { key, made };
}

/**
 * False where another process was first. A link appears with its content or not at all, so that a
 * crash leaves no half key.
 */
function writeKey(file: string): boolean {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, randomBytes(48).toString('base64url'), { mode: 0o600, flush: true });
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(draft);
  }
}

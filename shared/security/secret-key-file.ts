/** Embedded mode's own SECRET_KEY, so that a first start needs none from the operator. */
import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { explained, makeDataDirectory } from '../process/data-directory.ts';
import { secretKeyForm } from '../settings/settings-table.ts';
import { SettingsInvalid } from '../settings/settings.ts';

export interface SecretKeyFile {
  readonly key: string;
  /** Whether this call wrote the file. */
  readonly made: boolean;
}

/**
 * Reads `secret.key` in `dataDir`, and writes it first where there is none, readable by its owner
 * only. Throws SettingsInvalid where the file is empty or cut short, or is missing beside a database:
 * it is not replaced, because a new key could not read what the old one sealed.
 */
export function ensureSecretKey(dataDir: string): SecretKeyFile {
  const home = makeDataDirectory(dataDir);
  const file = join(home, 'secret.key');
  // The database is looked for first: another process may just be making both, and begins with the
  // key.
  if (existsSync(join(home, 'postgres')) && !existsSync(file)) {
    const message = `is required: ${file} is missing, without which stored secrets in the database of DATA_DIR cannot be read; restore it, or set SECRET_KEY`;
    throw new SettingsInvalid([{ variable: 'SECRET_KEY', message }]);
  }
  const { key, made } = readOrMake(file);
  if (key === '') {
    const message = `cannot be read: ${file} is empty; restore it, or set SECRET_KEY`;
    throw new SettingsInvalid([{ variable: 'SECRET_KEY', message }]);
  }
  const problem = secretKeyForm(key);
  if (problem !== undefined)
    throw new SettingsInvalid([{ variable: 'SECRET_KEY', message: `${problem}; see ${file}` }]);
  return { key, made };
}

function readOrMake(file: string): SecretKeyFile {
  try {
    const made = existsSync(file) ? false : writeKey(file);
    return { key: readFileSync(file, 'utf8').trim(), made };
  } catch (error) {
    throw explained(error);
  }
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

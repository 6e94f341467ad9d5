/**
 * PostgreSQL runs this in a restore for each file of its log that it needs (`restore_command`):
 * brings it back from the archive. `node unarchive.ts <directory of the archive> <name> <path>`
 *
 * Ends with 1 where the archive does not have the file, which PostgreSQL takes for the end of the
 * log; with 255, which ends the restore, where it has the file and cannot read it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { compressed } from './wal.ts';

const [directory = '', name = '', path = ''] = process.argv.slice(2);

try {
  // gzip has a checksum, so that what was damaged is an error.
  const content = gunzipSync(readFileSync(join(directory, name + compressed)));
  writeFileSync(path, content, { mode: 0o600 });
} catch (error) {
  const isAbsent = (error as NodeJS.ErrnoException).code === 'ENOENT';
  if (!isAbsent) process.stderr.write(`${name}: ${(error as Error).message}\n`);
  process.exitCode = isAbsent ? 1 : 255;
}

/**
 * PostgreSQL runs this for each file of its log that is complete (`archive_command`, see
 * archive-command.ts), and keeps the file until it succeeds: writes it, compressed, into the backup
 * directory that a file of DATA_DIR names. `node archive.ts <that file> <path> <name>`
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { writeWhole } from './durable-files.ts';
import { compressed, isWalFile } from './wal.ts';

/**
 * So many files (1 GiB) wait for a backup directory that cannot be written. After that they are
 * given up, since a full disk would stop every write: the archive then has a gap, which a restore
 * reports, and the next `npm run backup` begins again after it.
 */
const mayWait = 64;

const [directoryFile = '', path = '', name = ''] = process.argv.slice(2);

/** Throws where the archive has another file of that name: two servers write into one directory. */
function archive(directory: string): void {
  const target = join(directory, 'wal', name + compressed);
  const content = readFileSync(path);
  if (!existsSync(target)) {
    writeWhole(target, gzipSync(content, { level: 1 }));
    return;
  }
  const isTheSame = gunzipSync(readFileSync(target)).equals(content);
  if (!isTheSame) throw new Error(`${target} is there already, and is another one`);
}

function waiting(): number {
  const marks = join(dirname(path), 'archive_status');
  return readdirSync(marks).filter((each) => each.endsWith('.ready')).length;
}

try {
  if (!isWalFile(name)) throw new Error(`${name} is no file of the log`);
  archive(readFileSync(directoryFile, 'utf8').trim());
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = waiting() > mayWait ? 0 : 1;
}

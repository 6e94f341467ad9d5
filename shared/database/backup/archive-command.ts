/**
 * The commands that the embedded server runs to keep its log in a backup directory, and to bring it
 * back.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** In DATA_DIR: one line, the backup directory. Without it the log is kept nowhere. */
export const directoryFileIn = (home: string): string => join(home, 'backup.to');

const programAt = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** For the shell that PostgreSQL runs the command in, which also replaces what follows a `%`. */
function quoted(text: string): string {
  const literal = text.replaceAll('%', '%%');
  return process.platform === 'win32' ? `"${literal}"` : `'${literal.replaceAll("'", `'\\''`)}'`;
}

/** Without a backup directory no process is started but the shell. */
export function archiveCommand(home: string): string {
  const file = quoted(directoryFileIn(home));
  const program = `${quoted(process.execPath)} ${quoted(programAt('archive.ts'))} ${file} %p %f`;
  return process.platform === 'win32' ? program : `test ! -e ${file} || ${program}`;
}

export const restoreCommand = (archive: string): string =>
  `${quoted(process.execPath)} ${quoted(programAt('unarchive.ts'))} ${quoted(archive)} %f %p`;

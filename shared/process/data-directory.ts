/** DATA_DIR, where embedded mode keeps everything: makes it, and says why that cannot be done. */
import { accessSync, constants, mkdirSync, realpathSync } from 'node:fs';
import { CannotStart } from './cannot-start.ts';

const remedy = 'set DATA_DIR to another directory, or give DATABASE_URL';

/**
 * Makes the directory where it is missing. Answers its path, absolute and without symbolic links.
 * Throws CannotStart.
 */
export function makeDataDirectory(dataDir: string): string {
  try {
    mkdirSync(dataDir, { recursive: true });
    const home = realpathSync(dataDir);
    accessSync(home, constants.W_OK | constants.X_OK);
    return home;
  } catch (error) {
    // What lacks above is made: only a link to nothing, as to a disk that is away, answers this.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new CannotStart(
        `DATA_DIR lies below a link to nothing: ${dataDir}. Mount or make what it leads to, ${remedy}.`,
        { cause: error },
      );
    throw explained(error);
  }
}

/** A refusal of the file system, with what can be done about it; any other error as it is. */
export function explained(error: unknown): unknown {
  const { code, path } = error as NodeJS.ErrnoException;
  const reason = path === undefined ? undefined : reasonOf(code, path);
  return reason === undefined ? error : new CannotStart(reason, { cause: error });
}

function reasonOf(code: string | undefined, path: string): string | undefined {
  switch (code) {
    case 'EEXIST':
      return `DATA_DIR is no directory but a file: ${path}. Move it away, ${remedy}.`;
    case 'ENOTDIR':
      return `DATA_DIR cannot be made, since it lies in a file: ${path}. Move that away, ${remedy}.`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `This user may not use ${path} (${code}). Run Strata as its owner, ${remedy}.`;
    case 'ENOSPC':
      return `There is no space left for ${path} (ENOSPC). Make some, ${remedy}.`;
    default:
      return undefined;
  }
}

/** One text in one file, for Node. A file is whole at each moment, whenever the process dies. */
import { constants, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { KeyValueStorage } from './types.ts';

const mostBytes = 16 * 1024 * 1024;
const writableByAll = 0o002;
/** Saving takes milliseconds: what is older was left by a process that died. */
const leftOverMs = 10_000;

/** A pipe under this name must not hold up the start. Windows has no such word. */
const readAtOnce = constants.O_RDONLY | constants.O_NONBLOCK;

export function fileStorage(given: string): KeyValueStorage {
  const path = resolve(given);
  const folder = dirname(path);
  let swept = false;

  async function sweep(): Promise<void> {
    if (swept) return;
    swept = true;
    for (const name of await readdir(folder)) {
      const file = join(folder, name);
      if (!file.startsWith(`${path}.`) || !file.endsWith('.tmp')) continue;
      const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
      if (Date.now() - mtimeMs > leftOverMs) await rm(file, { force: true });
    }
  }

  return {
    async getItem() {
      const file = await open(path, readAtOnce).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined;
        throw error;
      });
      if (!file) return null;
      try {
        const found = await file.stat();
        if (!found.isFile()) throw new Error(`${path} is no file`);
        const isOpenToAll = process.platform !== 'win32' && (found.mode & writableByAll) !== 0;
        if (isOpenToAll) throw new Error(`everybody may write ${path}`);
        if (found.size > mostBytes) throw new Error(`${path} is too large`);
        return await file.readFile('utf8');
      } finally {
        await file.close();
      }
    },

    async setItem(_key, text) {
      await sweep();
      const temporary = `${path}.${crypto.randomUUID()}.tmp`;
      try {
        const file = await open(temporary, 'wx', 0o600);
        try {
          await file.writeFile(text);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, path);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      await syncFolder(folder);
    },
  };
}

/** Without it a crash of the machine may forget the renaming. Windows has no such thing. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => {});
  await handle?.close();
}

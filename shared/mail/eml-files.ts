import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

let count = 0;

/** Writes a mail as a file whose name sorts by time; it appears whole or not at all. Only its owner may read it: mails hold links. */
export async function writeEml(folder: string, message: Buffer): Promise<string> {
  count = (count + 1) % 1_000_000;
  const moment = new Date().toISOString().replaceAll(':', '-');
  const name = `${moment}-${String(count).padStart(6, '0')}-${randomBytes(4).toString('hex')}.eml`;
  const file = join(folder, name);
  const draft = join(folder, `.${name}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      await handle.writeFile(message);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
  return file;
}

/** Mails kept as files, where no mail server is configured. */
import { randomBytes } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

const highestNumber = 999_999;
let lastNumber = 0;

/**
 * Writes a mail into the folder and answers its path. Names sort in the order of writing. The file
 * appears whole or not at all, and only its owner may read it, because mails hold links that
 * decide.
 */
export async function writeEml(folder: string, message: Buffer): Promise<string> {
  const name = nextName();
  const file = join(folder, name);
  const partialFile = join(folder, `.${name}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    await writeDurably(partialFile, message);
    await rename(partialFile, file);
  } catch (error) {
    await rm(partialFile, { force: true });
    throw error;
  }
  return file;
}

/** By time, then by number within a process; the random part keeps two processes apart. */
function nextName(): string {
  lastNumber = lastNumber === highestNumber ? 0 : lastNumber + 1;
  const time = new Date().toISOString().replaceAll(':', '-');
  const number = String(lastNumber).padStart(6, '0');
  return `${time}-${number}-${randomBytes(4).toString('hex')}.eml`;
}

async function writeDurably(file: string, content: Buffer): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

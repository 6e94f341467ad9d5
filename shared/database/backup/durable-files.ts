/**
 * Files that are there whole or not at all, however the process or the machine ends. Readable by
 * their owner alone by default.
 */
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Puts a file in its place by a rename, once it is on the disk. */
export function writeWhole(file: string, content: string | Buffer, mode = 0o600): void {
  const draft = `${file}.part`;
  rmSync(draft, { force: true });
  writeFileSync(draft, content, { mode, flush: true, flag: 'wx' });
  renameSync(draft, file);
  flushDirectory(dirname(file));
}

/** What was made, renamed or removed in the directory is on the disk. */
export function flushDirectory(directory: string): void {
  // Windows opens no directories, and needs none flushed.
  if (process.platform === 'win32') return;
  const handle = openSync(directory, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export interface Copied {
  readonly size: number;
  /** Of what was written, in hexadecimal. */
  readonly sha256: string;
}

const chunkBytes = 1024 * 1024;

/** Copies what a file has now, to a file that is not there yet. */
export async function copyWhole(
  from: string,
  to: string,
  { flush }: { readonly flush: boolean },
): Promise<Copied> {
  const source = await open(from, 'r');
  try {
    const target = await open(to, 'wx', 0o600);
    try {
      const copied = await copyChunks(source, target);
      if (flush) await target.sync();
      return copied;
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

async function copyChunks(source: FileHandle, target: FileHandle): Promise<Copied> {
  const hash = createHash('sha256');
  const chunk = Buffer.alloc(chunkBytes);
  for (let size = 0; ;) {
    const { bytesRead } = await source.read(chunk, 0, chunkBytes, size);
    if (bytesRead === 0) return { size, sha256: hash.digest('hex') };
    const part = chunk.subarray(0, bytesRead);
    hash.update(part);
    await target.writeFile(part);
    size += bytesRead;
  }
}

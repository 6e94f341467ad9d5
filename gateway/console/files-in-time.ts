/**
 * The console's files, made when a browser first asks for them: most gateways of a cluster are
 * never asked, and a start does not wait for it. In a thread of its own, since requests would wait
 * meanwhile, for tenths of a second.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { ConsoleFiles, Encoded } from './files.ts';

/** Made once. Where that failed, the next call tries again. */
export function consoleFilesInTime(baseUrl: string): () => Promise<ConsoleFiles> {
  let made: Promise<ConsoleFiles> | undefined;
  return () => {
    made ??= makeFiles(baseUrl).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

async function makeFiles(baseUrl: string): Promise<ConsoleFiles> {
  const worker = new Worker(new URL('./files-worker.ts', import.meta.url), { workerData: baseUrl });
  const [files] = (await once(worker, 'message')) as [ConsoleFiles];
  const withBuffers = [...files.files].map(([name, file]) => [name, inBuffers(file)] as const);
  return { ...files, page: inBuffers(files.page), files: new Map(withBuffers) };
}

/** Buffers arrive from another thread as plain arrays of bytes. */
const inBuffers = ({ type, plain, gzip, brotli }: Encoded): Encoded => ({
  type,
  plain: Buffer.from(plain),
  gzip: Buffer.from(gzip),
  brotli: Buffer.from(brotli),
});

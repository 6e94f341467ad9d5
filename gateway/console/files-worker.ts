/** The thread of files-in-time.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { createConsoleFiles } from './files.ts';

parentPort?.postMessage(createConsoleFiles(workerData as string));

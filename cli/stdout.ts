/** Answers on stdout: they are written whole, or the process ends with 1. */
import { fstatSync, writeFileSync } from 'node:fs';

const failed = 1;

export interface Stdout {
  readonly print: (line: string) => void;
  /** Ends the process, once everything is written. */
  readonly exit: (code: number) => void;
}

export function openStdout(complain: (text: string) => void): Stdout {
  const { stdout } = process;
  // Node takes a file on a full disk for written where a part of the text still had its place.
  const isFile = fstatSync(stdout.fd).isFile();
  let ending = 0;
  stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // Whoever reads the answer may stop reading, as head does. What a command ends with is said
    // right after its answer, and is an answer as well: 3 for a no.
    if (code === 'EPIPE') {
      setImmediate(() => process.exit(ending));
      return;
    }
    complain(`the answer is not written: ${message}`);
    process.exit(failed);
  });
  return {
    print(line) {
      if (isFile) writeFileSync(stdout.fd, `${line}\n`);
      else stdout.write(`${line}\n`);
    },
    exit(code) {
      ending = code;
      stdout.write('', (unwritten) => {
        if (!unwritten) process.exit(code);
      });
    },
  };
}

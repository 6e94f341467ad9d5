/** Answers on stdout: they are written whole, or the process ends with 1. */
import { fstatSync, writeFileSync } from 'node:fs';
import { printable } from './output.ts';

const failed = 1;

export function openStdout(complain: (text: string) => void) {
  const { stdout } = process;
  // Node takes a file on a full disk for written where a part of the text still had its place.
  const isFile = fstatSync(stdout.fd).isFile();
  let ending = 0;
  const end = ({ message }: Error): never => {
    complain(`the answer is not written: ${message}`);
    process.exit(failed);
  };
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads the answer may stop reading, as head does. What a command ends with is said
    // right after its answer, and is an answer as well: 3 for a no.
    if (error.code === 'EPIPE') setImmediate(() => process.exit(ending));
    else end(error);
  });
  return {
    /** With escapes in place of what a terminal would obey: names are what tenants say they are. */
    print(text: string): void {
      const line = `${printable(text)}\n`;
      if (!isFile) {
        stdout.write(line);
        return;
      }
      try {
        writeFileSync(stdout.fd, line);
      } catch (error) {
        end(error as Error);
      }
    },
    /** Ends the process, once everything is written. */
    exit(code: number): void {
      ending = code;
      stdout.write('', (unwritten) => {
        if (!unwritten) process.exit(code);
      });
    },
  };
}

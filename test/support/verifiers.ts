/** The programs of deploy/audit, as receivers of events run them. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';

export interface Verifier {
  readonly program: string;
  readonly file: string;
}

/** Each program that receivers take, and how it is run. */
export const verifiers: readonly Verifier[] = (
  [
    [process.execPath, 'verify.mjs'],
    ['python3', 'verify.py'],
    ['bash', 'verify.sh'],
  ] as const
).map(([program, name]) => ({
  program,
  file: join(import.meta.dirname, '../../deploy/audit', name),
}));

/**
 * What a program says of these lines, the last of which has no line feed. `from` is the number and
 * hash that the receiver had.
 */
export const verdict = (
  { program, file }: Verifier,
  lines: readonly unknown[],
  from: readonly string[] = [],
): Promise<string> =>
  new Promise((resolve) => {
    const child = execFile(program, [file, ...from], (error, out, err) =>
      resolve(error && out === '' ? err : out.trim()),
    );
    child.stdin!.end(lines.map((line) => JSON.stringify(line)).join('\n'));
  });

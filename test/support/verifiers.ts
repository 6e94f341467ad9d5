/** The programs of docs/operations/proof.md, as receivers of events run them. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Verifier {
  readonly language: string;
  readonly program: string;
  readonly file: string;
}

/** Each program as the page has it, and how it is run; `remove` when they are no longer needed. */
export function publishedVerifiers(): { verifiers: Verifier[]; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'verifiers-'));
  const page = readFileSync(join(import.meta.dirname, '../../docs/operations/proof.md'), 'utf8');
  const verifiers = (
    [
      ['js', process.execPath, 'verify.mjs'],
      ['python', 'python3', 'verify.py'],
      ['bash', 'bash', 'verify.sh'],
    ] as const
  ).map(([language, program, name]) => {
    const [, text] = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'ms').exec(page)!;
    const file = join(folder, name);
    writeFileSync(file, text!);
    return { language, program, file };
  });
  return { verifiers, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** What a program says of these lines. `from` is the number and hash that the receiver had. */
export const verdict = (
  { program, file }: Verifier,
  lines: readonly unknown[],
  from: readonly string[] = [],
): Promise<string> =>
  new Promise((resolve) => {
    const child = execFile(program, [file, ...from], (error, out, err) =>
      resolve(error && out === '' ? err : out.trim()),
    );
    child.stdin!.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  });

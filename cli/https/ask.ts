/** Secrets as they are typed at a terminal, where nobody sees them, or brought by a pipe. */
import { text } from 'node:stream/consumers';

const keys = { enter: '\r', lineFeed: '\n', end: '\u0004', interrupt: '\u0003', erase: '\u007f' };

export async function askSecret(prompt: string): Promise<string> {
  const { stdin, stderr } = process;
  if (!stdin.isTTY) return (await text(stdin)).replace(/\r?\n$/, '');
  stderr.write(prompt);
  stdin.setRawMode(true).setEncoding('utf8').resume();
  try {
    return await typedLine();
  } finally {
    stdin.setRawMode(false).pause();
    stderr.write('\n');
  }
}

/** Without an echo, up to Enter. */
async function typedLine(): Promise<string> {
  let typed = '';
  for await (const chunk of process.stdin.iterator({ destroyOnReturn: false })) {
    for (const key of String(chunk)) {
      if (key === keys.enter || key === keys.lineFeed || key === keys.end) return typed;
      if (key === keys.interrupt) process.exit(130);
      typed = key === keys.erase ? typed.slice(0, -1) : typed + key;
    }
  }
  return typed;
}

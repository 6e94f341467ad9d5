/** When the lines of the log are written. */
import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const module = (path: string): string =>
  JSON.stringify(fileURLToPath(new URL(`../../${path}`, import.meta.url)));

/**
 * What a process has written when it has run this with a `log`, which counts the writes to standard
 * output.
 */
function writtenBy(program: string): { messages: unknown[]; writes: number } {
  const source = `
    import fs from 'node:fs';
    import { syncBuiltinESMExports } from 'node:module';
    let writes = 0;
    const { writeSync } = fs;
    fs.writeSync = (fd, ...what) => { if (fd === 1) writes += 1; return writeSync(fd, ...what); };
    syncBuiltinESMExports();
    const { createLog } = await import(${module('shared/cluster/log.ts')});
    const log = createLog({ log_level: 'info', node_id: 'n' });
    process.on('exit', () => writeSync(2, String(writes)));
    ${program}`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
    encoding: 'utf8',
  });
  const lines = stdout.split('\n').slice(0, -1);
  const messages = lines.map((line) => (JSON.parse(line) as { msg: unknown }).msg);
  return { messages, writes: Number(stderr) };
}

const fourLines = `for (const each of ['a', 'b', 'c', 'd']) log.info(each);`;

test('lines that follow one closely are written together, in their order', () => {
  const waiting = `${fourLines} await new Promise((done) => setTimeout(done, 500));`;
  expect(writtenBy(waiting)).toEqual({ messages: ['a', 'b', 'c', 'd'], writes: 2 });
});

test('a warning is there at once, with what comes before it', () => {
  const killed = `${fourLines} log.warn('e'); log.info('f'); writeSync(2, String(writes)); process.kill(process.pid, 'SIGKILL');`;
  expect(writtenBy(killed)).toEqual({ messages: ['a', 'b', 'c', 'd', 'e'], writes: 2 });
});

test.each(['process.exit(3)', `throw new Error('unexpected')`])(
  'nothing is missing where the process ends by %s',
  (end) => {
    const { messages } = writtenBy(`${fourLines} ${end};`);
    expect(messages).toEqual(['a', 'b', 'c', 'd']);
  },
);

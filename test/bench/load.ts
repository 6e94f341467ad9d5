import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { binary } from '../support/servers.ts';
import { loadCore } from './machine.ts';

/** `###` in a body stands for a number of three digits that changes with every request. */
export interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}
export interface Target {
  readonly origin: string;
  /** Sent by turns. */
  readonly requests: readonly Sent[];
  /** The body of every answer, beside status 200; where it has `###`, all numbers are passed over. */
  readonly expect: string;
}
export interface Load {
  readonly connections: number;
  readonly seconds: number;
}
export interface Measured {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const run = promisify(execFile);
/** A string of Lua in which nothing needs an escape. */
const lua = (text: string): string => ` [======[${text}]======]`;

const formatted = ({
  method = 'GET',
  path,
  headers = {},
  body,
}: Sent): string => `wrk.format(${lua(method)}, ${lua(path)}, {
  ${Object.entries(headers)
    .map(([name, value]) => `[${lua(name)}] = ${lua(value)}`)
    .join(', ')} }, ${body === undefined ? 'nil' : lua(body)})`;

const script = ({ requests, expect }: Target): string => `
  local texts, turn, thread = {}, 0, nil
  wrong, sample = 0, ''
  function setup(only) thread = only end
  function init()
    ${requests.map((sent, index) => `texts[${index}] = ${formatted(sent)}`).join('\n')}
  end
  function request()
    turn = turn + 1
    local text = texts[turn % ${requests.length}]
    return ${requests.some(({ body }) => body?.includes('###')) ? `(text:gsub('###', tostring(100 + turn % 900), 1))` : 'text'}
  end
  local expected = ${lua(expect.includes('###') ? expect.replaceAll(/###|[0-9]+/g, '0') : expect)}
  function response(status, headers, body)
    if status == 200 and ${expect.includes('###') ? `body:gsub('%d+', '0')` : 'body'} == expected then return end
    wrong = wrong + 1
    sample = status .. ' ' .. body
  end
  function done(summary, latency)
    local errors = summary.errors
    io.write(string.format('RESULT %d %d %d %d %d %d ', summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
      thread:get('wrong'), errors.connect + errors.read + errors.write + errors.timeout), thread:get('sample'), '\\n')
  end`;

/** Requests for as long as told, from one core; every answer is compared. Throws where one is not what it should be. */
export async function load(target: Target, { connections, seconds }: Load): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-bench-'));
  try {
    const file = join(folder, 'load.lua');
    writeFileSync(file, script(target));
    const { stdout, stderr } = await run('taskset', [
      '-c',
      loadCore,
      binary('wrk'),
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
      '--timeout',
      '10s',
      '-s',
      file,
      target.origin,
    ]);
    const [, requests, micros, p50, p99, wrong, errors, sample] =
      /RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (.*)/.exec(stdout) ?? [];
    if (!Number(requests))
      throw new Error(`${target.origin} was not measured:\n${stdout}${stderr}`);
    if (Number(wrong) + Number(errors) > 0)
      throw new Error(
        `${target.origin}: ${wrong} wrong answers and ${errors} errors in ${requests}; such as ${sample}`,
      );
    return {
      perSecond: Number(requests) / (Number(micros) / 1e6),
      p50Ms: Number(p50) / 1000,
      p99Ms: Number(p99) / 1000,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

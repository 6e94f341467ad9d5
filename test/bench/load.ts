/** Load over HTTP, made by wrk. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { binary } from '../support/servers.ts';
import { loadCore } from './machine.ts';

/** Stands in a body for a number of three digits that changes with every request. */
const placeholder = '###';

export interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** May hold the placeholder `###`. */
  readonly body?: string;
}
export interface Target {
  readonly origin: string;
  /** Sent in turn. */
  readonly requests: readonly Sent[];
  /**
   * The body of every answer. Where it holds `###`, numbers are not compared; without it, bodies are
   * not.
   */
  readonly expect?: string;
  /** Of every answer; 200 by default. */
  readonly status?: number;
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
const luaString = (text: string): string => ` [======[${text}]======]`;

/** The call with which wrk makes the bytes of a request. */
function luaRequest({ method = 'GET', path, headers = {}, body }: Sent): string {
  const fields = Object.entries(headers).map(
    ([name, value]) => `[${luaString(name)}] = ${luaString(value)}`,
  );
  const bodyText = body === undefined ? 'nil' : luaString(body);
  return `wrk.format(${luaString(method)}, ${luaString(path)}, { ${fields.join(', ')} }, ${bodyText})`;
}

/**
 * The script of one run of wrk: sends the requests in turn, compares every answer, and prints one
 * line that begins with RESULT.
 */
function scriptOf({ requests, expect, status = 200 }: Target): string {
  const texts = requests.map((sent, index) => `texts[${index}] = ${luaRequest(sent)}`);
  const numbersAreSent = requests.some(({ body }) => body?.includes(placeholder));
  const nextText = numbersAreSent
    ? `(text:gsub('${placeholder}', tostring(100 + turn % 900), 1))`
    : 'text';
  const numbersAreAnswered = expect?.includes(placeholder) ?? false;
  const expected = numbersAreAnswered ? expect?.replaceAll(/###|[0-9]+/g, '0') : expect;
  const answered = numbersAreAnswered ? `body:gsub('%d+', '0')` : 'body';
  return `
  local texts, turn, thread = {}, 0, nil
  wrong, sample = 0, ''
  function setup(only) thread = only end
  function init()
    ${texts.join('\n')}
  end
  function request()
    turn = turn + 1
    local text = texts[turn % ${requests.length}]
    return ${nextText}
  end
  local expected = ${expected === undefined ? 'nil' : luaString(expected)}
  function response(status, headers, body)
    if status == ${status} and (expected == nil or ${answered} == expected) then return end
    wrong = wrong + 1
    sample = status .. ' ' .. body
  end
  function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format('RESULT %d %d %d %d %d %d ', summary.requests, summary.duration,
      latency:percentile(50), latency:percentile(99), thread:get('wrong'), failed))
    io.write(thread:get('sample'), '\\n')
  end`;
}

/**
 * Sends requests for so many seconds from the load's core and compares every answer; throws if one
 * is wrong or missing.
 */
export async function load(target: Target, { connections, seconds }: Load): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'strata-bench-'));
  try {
    const file = join(folder, 'load.lua');
    writeFileSync(file, scriptOf(target));
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

/**
 * Real NATS and Redis for tests, on free ports, and the programs of the machine that tests need.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

export interface Process {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly process: ChildProcess;
  readonly stop: (signal?: NodeJS.Signals) => Promise<void>;
}

/**
 * Below the ports that Linux and macOS give to outgoing connections. Each worker of jest has a part
 * of them for itself.
 */
const ports = { from: 20_000, ofWorker: 2000, workers: 6 } as const;
/**
 * Those that this process has been given: one that is probed twice at the same time would be free
 * both times.
 */
const given = new Set<number>();

/**
 * A port that nobody listens on, for a program that is told its port. Not one that the system would
 * choose: between here and that program's start, an outgoing connection of another test might be
 * given the same.
 */
export async function freePort(): Promise<number> {
  const worker = Number(process.env.JEST_WORKER_ID ?? 0) % ports.workers;
  const first = ports.from + worker * ports.ofWorker;
  for (;;) {
    const port = first + Math.floor(Math.random() * ports.ofWorker);
    if (given.has(port)) continue;
    given.add(port);
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false)).listen(port, '0.0.0.0', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((closed) => {
      probe.close(closed);
    });
    return port;
  }
}

/**
 * The path of a program, also under one of its other names. Where it is missing, it is installed if
 * this is root on Debian; else the error says how to install it.
 */
export function binary(
  name: string,
  debianPackage = name,
  otherNames: readonly string[] = [],
): string {
  const find = (wanted: string): string | undefined => {
    try {
      return execFileSync('which', [wanted], {
        encoding: 'utf8',
        env: { PATH: `${process.env.PATH}:/usr/sbin:/usr/local/sbin` },
      }).trim();
    } catch {
      return undefined;
    }
  };
  const found = [name, ...otherNames].map(find).find((path) => path !== undefined);
  if (found) return found;
  if (process.platform === 'linux' && process.getuid?.() === 0) {
    execFileSync(
      'bash',
      [
        '-c',
        // Another worker may be installing something, and a mirror may fail for a moment.
        `options="-qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5"
         apt-get $options update && DEBIAN_FRONTEND=noninteractive apt-get $options install -y ${debianPackage}`,
      ],
      { stdio: 'ignore', timeout: 900_000 },
    );
    const installed = find(name);
    if (installed) return installed;
  }
  throw new Error(
    `This needs ${name}. Install it (Debian: apt install ${debianPackage}; macOS: brew install ${name.replace('-server', '')}).`,
  );
}

/**
 * Chromium's headless shell, where it is to be had: it has no window around the page, which in a
 * whole Chromium takes four fifths of the processor time. Workers inherit the path from the setup.
 */
export function chromium(): string {
  process.env.TEST_CHROMIUM ??= headlessShell() ?? wholeChromium();
  return process.env.TEST_CHROMIUM;
}

function headlessShell(): string | undefined {
  try {
    return binary('chromium-headless-shell');
  } catch {
    // Only Debian has it as a package.
    return undefined;
  }
}

const wholeChromium = (): string =>
  binary('chromium', 'chromium', [
    'chromium-browser',
    'google-chrome',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
  ]);

/**
 * Resolves once something takes connections on the port; throws if the server ends before, or after
 * a minute.
 */
async function listening(port: number, child: ChildProcess): Promise<void> {
  for (const until = Date.now() + 60_000; Date.now() < until; await delay(25)) {
    const open = await new Promise<boolean>((done) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        done(true);
      }).once('error', () => done(false));
    });
    if (open) return;
    if (child.exitCode !== null)
      throw new Error(`a server on port ${port} ended with ${child.exitCode}`);
  }
  throw new Error(`nothing answers on port ${port}`);
}

async function start(
  name: string,
  scheme: string,
  port: number,
  argv: readonly string[],
): Promise<Process> {
  const child = spawn(binary(name), argv, { stdio: 'ignore' });
  await once(child, 'spawn');
  child.once('exit', guard(child.pid!, 'KILL'));
  await listening(port, child);
  return {
    url: `${scheme}://127.0.0.1:${port}`,
    port,
    pid: child.pid!,
    process: child,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await once(child, 'exit');
    },
  };
}

/**
 * What a program has from the tests beside its settings: where programs and temporary files are,
 * and where Node keeps what it has compiled, so that the hundreds of processes of a run read it
 * instead of compiling the same code again.
 */
export function inherited(): Record<string, string> {
  const names = ['PATH', 'HOME', 'TMPDIR', 'NODE_COMPILE_CACHE'];
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = process.env[name];
      return value === undefined || value === '' ? [] : [[name, value]];
    }),
  );
}

/** `config` is a file of further settings, such as permissions; `argv` are further arguments. */
export async function startNats({
  port,
  config,
  argv = [],
}: { port?: number; config?: string; argv?: readonly string[] } = {}): Promise<Process> {
  const chosen = port ?? (await freePort());
  return start('nats-server', 'nats', chosen, [
    '-a',
    '127.0.0.1',
    '-p',
    String(chosen),
    ...(config ? ['-c', config] : []),
    ...argv,
  ]);
}

/** `sentinel` is the file of a Sentinel, which it is then. */
export async function startRedis({
  port,
  argv = [],
  sentinel,
}: { port?: number; argv?: readonly string[]; sentinel?: string } = {}): Promise<Process> {
  const chosen = port ?? (await freePort());
  return start('redis-server', 'redis', chosen, [
    ...(sentinel ? [sentinel, '--sentinel'] : []),
    '--port',
    String(chosen),
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
    ...argv,
  ]);
}

/**
 * PgBouncer in transaction mode in front of a server of PostgreSQL, with few connections to it, as
 * a user that is not root. `settings` are further lines of its configuration.
 */
export async function startPgBouncer(
  postgres: string,
  settings: readonly string[] = [],
): Promise<Process> {
  const { hostname, port, username, password } = new URL(postgres);
  const own = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'strata-pgbouncer-'));
  chmodSync(directory, 0o755);
  writeFileSync(join(directory, 'users'), `"${username}" "${decodeURIComponent(password)}"\n`);
  const configuration = [
    '[databases]',
    `* = host=${hostname} port=${port}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${own}`,
    'unix_socket_dir =',
    'auth_type = scram-sha-256',
    `auth_file = ${join(directory, 'users')}`,
    `admin_users = ${username}`,
    'pool_mode = transaction',
    'default_pool_size = 20',
    'max_client_conn = 1000',
    ...settings,
  ];
  const file = join(directory, 'pgbouncer.ini');
  writeFileSync(file, configuration.join('\n'));
  const argv = process.getuid?.() === 0 ? ['-u', 'nobody', file] : [file];
  const pooler = await start('pgbouncer', 'postgres', own, argv);
  pooler.process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return { ...pooler, url: postgres.replace(`${hostname}:${port}`, `127.0.0.1:${own}`) };
}

/** nginx with this configuration of a server, which listens on the port. */
export async function startNginx(port: number, server: string): Promise<Process> {
  const directory = mkdtempSync(join(tmpdir(), 'strata-nginx-'));
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const configuration = [
    'daemon off;',
    'master_process off;',
    `pid ${directory}/pid;`,
    'error_log /dev/null;',
    'events {}',
    'http {',
    'access_log off;',
    ...temporary.map((each) => `${each}_temp_path ${directory}/${each};`),
    server,
    '}',
  ];
  const file = join(directory, 'nginx.conf');
  writeFileSync(file, configuration.join('\n'));
  const nginx = await start('nginx', 'http', port, [
    '-p',
    directory,
    '-e',
    '/dev/null',
    '-c',
    file,
  ]);
  nginx.process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return nginx;
}

/**
 * Ends a server and removes its directory when this process ends in any way. A shell of its own
 * waits at a pipe, which even SIGKILL of this process closes. Returns how to dismiss it.
 */
export function guard(pid: number, signal: 'QUIT' | 'KILL', directory = ''): () => void {
  const guardian = spawn(
    '/bin/sh',
    [
      '-c',
      `
    trap '' INT TERM HUP
    read -r dismissed && exit
    kill -${signal} "$1"
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
      kill -0 "$1" || break
      sleep 0.2
    done
    [ -z "$2" ] || rm -rf "$2"`,
      'sh',
      String(pid),
      directory,
    ],
    { stdio: ['pipe', 'ignore', 'ignore'], detached: true },
  );
  guardian.unref();
  guardian.stdin.on('error', () => {});
  unref(guardian.stdin);
  return () => {
    guardian.stdin.end('dismissed\n');
  };
}

/** Lets the process end while the pipe is open: it is a socket, whatever its type says. */
function unref(pipe: Writable): void {
  if (pipe instanceof Socket) pipe.unref();
}

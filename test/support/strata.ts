/** A real Strata process, and a client that speaks to it as a user would. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { invitationToken, invitationTokens, mailDataDir, watchMailFolder } from './mailboxes.ts';
import { guard, inherited } from './servers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
export const adminPassword = 'correct-horse-battery-staple';
export const secretKey = 'test-secret-key-of-at-least-thirty-two-bytes';

export interface Running {
  readonly url: string;
  readonly pid: number;
  readonly process: ChildProcess;
  /** Everything it has printed and logged. */
  readonly output: () => string;
  readonly stop: (signal?: NodeJS.Signals) => Promise<void>;
}

/**
 * Where and by whom a program is started: in this checkout, with the Node and as the user of the
 * tests, by default.
 */
export interface StartedBy {
  readonly folder?: string;
  readonly node?: string;
  readonly account?: { readonly uid?: number; readonly gid?: number };
}

/** Starts `strata.ts` on a free port and waits until it says where it serves. */
export const startStrata = (
  environment: Record<string, string> = {},
  roles: readonly string[] = [],
  startedBy: StartedBy = {},
): Promise<Running> => startProgram('strata.ts', environment, roles, startedBy);

/** The same for another program of this repository that begins to serve as `strata.ts` does. */
export async function startProgram(
  file: string,
  environment: Record<string, string>,
  roles: readonly string[] = [],
  { folder = root, node = process.execPath, account = {} }: StartedBy = {},
): Promise<Running> {
  const dataDir = environment.DATA_DIR ?? (environment.DATABASE_URL && mailDataDir());
  if (dataDir !== undefined) watchMailFolder(dataDir);
  // With the room for young objects that `npm start` gives.
  const child = spawn(node, ['--max-semi-space-size=8', file, ...roles], {
    ...account,
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...inherited(),
      PORT: '0',
      LOG_LEVEL: 'info',
      PLATFORM_ADMIN_EMAILS: 'admin@example.com',
      PLATFORM_ADMIN_PASSWORD: adminPassword,
      SECRET_KEY: secretKey,
      ...(dataDir === undefined ? {} : { DATA_DIR: dataDir }),
      ...environment,
    },
  });
  child.once('exit', guard(child.pid!, 'KILL'));
  const lines: string[] = [];
  const ready = new Promise<string>((resolve, reject) => {
    const read = (line: string): void => {
      lines.push(line);
      const said = /serves on (\S+)|node \S+ runs/.exec(line);
      if (said) resolve(said[1] ?? '');
    };
    createInterface(child.stdout!).on('line', read);
    createInterface(child.stderr!).on('line', read);
    child.once('exit', (code) =>
      reject(new Error(`${file} ended with ${code}:\n${lines.join('\n')}`)),
    );
  });
  const url = await ready;
  return {
    url,
    pid: child.pid!,
    process: child,
    output: () => lines.join('\n'),
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await once(child, 'exit');
    },
  };
}

// eslint-disable-next-line typescript/no-explicit-any -- tests look into bodies of any shape
export interface Answer<T = any> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
  readonly text: string;
}
export interface Send {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string | Buffer;
  readonly headers?: Record<string, string>;
}

/** The first chunk of a stream, which is then left: a stream never ends by itself. */
async function beginning(response: Response): Promise<string> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return new TextDecoder().decode(value);
}

/** A client with one access token or API key, or with none. */
export class Client {
  readonly url: string;
  readonly token: string | undefined;
  constructor(url: string, token?: string) {
    this.url = url;
    this.token = token;
  }

  async send(
    method: string,
    path: string,
    { body, raw, headers = {} }: Send = {},
  ): Promise<Answer> {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(payload === undefined ? {} : { body: payload }),
    });
    const text =
      response.headers.get('content-type') === 'text/event-stream'
        ? await beginning(response)
        : await response.text();
    const json =
      method !== 'HEAD' &&
      /^application\/((problem|scim)\+)?json/.test(response.headers.get('content-type') ?? '')
        ? (JSON.parse(text) as unknown)
        : undefined;
    return { status: response.status, headers: response.headers, body: json, text };
  }

  get(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.send('GET', path, headers ? { headers } : {});
  }
  put(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.send('PUT', path, { body, ...(headers ? { headers } : {}) });
  }
  patch(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.send('PATCH', path, { body, ...(headers ? { headers } : {}) });
  }
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.send('POST', path, { body, ...(headers ? { headers } : {}) });
  }
  delete(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.send('DELETE', path, headers ? { headers } : {});
  }
}

/** A client that has signed in with a password; throws with the answer where that fails. */
export async function signIn(
  url: string,
  email: string,
  password: string,
  tenantId?: string,
): Promise<Client> {
  const answer = await new Client(url).post('/auth/login', {
    email,
    password,
    ...(tenantId ? { tenant_id: tenantId } : {}),
  });
  if (answer.status !== 200)
    throw new Error(`sign-in of ${email}: ${answer.status} ${answer.text}`);
  return new Client(url, (answer.body as { access_token: string }).access_token);
}

export interface TenantFixture {
  readonly id: string;
  readonly admin: Client;
  readonly operator: Client;
  readonly viewer: Client;
  readonly emails: Record<string, string>;
}
export const memberPassword = 'member-password-123';

export interface NewMember {
  readonly email: string;
  readonly roles: readonly string[];
  readonly groups?: readonly string[];
  /** Set when the person accepts; `memberPassword` by default. Only for whoever has no account. */
  readonly password?: string;
}
interface AddedMember {
  readonly user_id: string;
  /** Signed in: accepting with a password is a sign-in. */
  readonly client: Client;
}

/**
 * Makes somebody without an account a member with a password, as they would be: invited, mailed,
 * and of their own will.
 */
export async function addMember(
  admin: Client,
  tenantId: string,
  { password = memberPassword, ...member }: NewMember,
): Promise<AddedMember> {
  const before = await invitationTokens(member.email);
  const invited = await admin.post(`/tenants/${tenantId}/users`, member);
  if (invited.status !== 201)
    throw new Error(`invitation of ${member.email}: ${invited.status} ${invited.text}`);
  const token = await invitationToken(member.email, before.length + 1);
  const accepted = await new Client(admin.url).post('/auth/invitations/accept', {
    token,
    password,
  });
  if (accepted.status !== 200)
    throw new Error(`acceptance of ${member.email}: ${accepted.status} ${accepted.text}`);
  const { access_token: accessToken } = accepted.body as { access_token: string };
  return {
    user_id: (invited.body as { user_id: string }).user_id,
    client: new Client(admin.url, accessToken),
  };
}

/** Makes somebody who has an account a member: they accept signed in, as `client`. */
export async function joinTenant(
  admin: Client,
  tenantId: string,
  client: Client,
  member: Omit<NewMember, 'password'>,
): Promise<void> {
  const invited = await admin.post(`/tenants/${tenantId}/users`, member);
  if (invited.status !== 201)
    throw new Error(`invitation of ${member.email}: ${invited.status} ${invited.text}`);
  const { body } = await client.get('/auth/invitations');
  const invitations = (body as { items: { id: string; tenant: { id: string } }[] }).items;
  const invitation = invitations.find(({ tenant }) => tenant.id === tenantId);
  const accepted = await client.post(`/auth/invitations/${invitation?.id}/accept`);
  if (accepted.status !== 200)
    throw new Error(`acceptance of ${member.email}: ${accepted.status} ${accepted.text}`);
}

type Besides = 'operator' | 'viewer';
/** A tenant with an administrator and members of some roles. */
export type TenantWith<Role extends Besides> = Omit<TenantFixture, Exclude<Besides, Role>>;

/** A tenant with one member of each role, all signed in. */
export const createTenant = (url: string, platform: Client, name: string): Promise<TenantFixture> =>
  createTenantWith(url, platform, name, ['operator', 'viewer']);

/** For many tenants in a file: each member more costs several requests and a hash of a password. */
export async function createTenantWith<Role extends Besides = never>(
  url: string,
  platform: Client,
  name: string,
  roles: readonly Role[] = [],
): Promise<TenantWith<Role>> {
  const slug = name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
  const emails = {
    tenant_admin: `admin@${slug}.example`,
    operator: `operator@${slug}.example`,
    viewer: `viewer@${slug}.example`,
  };
  const made = await platform.post('/tenants', {
    name,
    admin: { email: emails.tenant_admin, password: memberPassword },
  });
  if (made.status !== 201) throw new Error(`tenant ${name}: ${made.status} ${made.text}`);
  const { id } = made.body as { id: string };
  const admin = await signIn(url, emails.tenant_admin, memberPassword);
  const members = await Promise.all(
    roles.map(async (role) => {
      const { client } = await addMember(admin, id, { email: emails[role], roles: [role] });
      return [role, client] as const;
    }),
  );
  const clients = Object.fromEntries(members) as Record<Role, Client>;
  return { id, admin, emails, ...clients } as unknown as TenantWith<Role>;
}

/** Commands about who the command line acts as. */
import { Misused, type Command } from '../command.ts';
import { columns } from '../output.ts';
import { Failed } from '../session.ts';
import { given, tenantId, textOf } from '../typed.ts';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { askSecret } from './ask.ts';
import { keyOf } from './credentials.ts';
import { sessionOf, type HttpSession } from './http-session.ts';

type Identity = ResultOf<'auth.me'>;

/** Of a line about who somebody is. */
const rowOf = (url: string, { user, service_account: account, tenant }: Partial<Identity>) => ({
  url,
  who: user?.email ?? account?.name ?? 'an API key',
  tenant: tenant?.name ?? 'none',
  roles: [...(user?.platform_roles ?? []), ...(tenant?.roles ?? [])].join(', ') || '-',
});

const login: Command<HttpSession> = {
  name: 'login',
  parameters: '',
  summary: 'sign in, and keep that in a file that only you may read; a pipe may bring the secret',
  flags: {
    email: { type: 'string', summary: 'with this address and its password' },
    'with-key': { type: 'boolean', summary: 'with an API key' },
  },
  async run({ session, flags, answer }) {
    const { signIns, tenant } = session.credentials;
    const url = session.credentials.url();
    const email = textOf(flags.email);
    if ((email === undefined) === (flags['with-key'] !== true))
      throw new Misused('either --email <address> or --with-key is needed');
    signIns.requireFolder();
    if (email === undefined) {
      const key = keyOf(await askSecret('API key: '), 'what was typed');
      const identity = await identityOf(session, key);
      signIns.keep(url, { kind: 'key', api_key: key });
      answer(identity, () => columns([rowOf(url, identity)]));
      return;
    }
    const body = { email, password: await askSecret('Password: ') };
    let pair = await session.callWith(undefined, 'auth.login', { body });
    signIns.keep(url, sessionOf(pair));
    if (tenant !== undefined) {
      const own = pair.memberships.map(({ tenant_id: id, name }) => ({ id, name }));
      const wanted = {
        tenant_id: await tenantId({ ...session, tenants: async () => own }, tenant),
      };
      if (wanted.tenant_id !== pair.tenant?.id) {
        pair = await session.callWith(pair.access_token, 'auth.switch-tenant', { body: wanted });
        signIns.keep(url, sessionOf(pair));
      }
    }
    const { user, tenant: entered, memberships } = pair;
    const identity = { user, tenant: entered, memberships };
    answer(identity, () => columns([rowOf(url, identity)]));
  },
};

/** A key without the right to ask who it is, is a key. */
async function identityOf(session: HttpSession, key: string): Promise<Partial<Identity>> {
  try {
    return await session.callWith(key, 'auth.me', {});
  } catch (error) {
    if (error instanceof Failed && error.code === 'insufficient_scope') return {};
    throw error;
  }
}

const logout: Command<HttpSession> = {
  name: 'logout',
  parameters: '',
  summary: 'end the session that login began, and forget it',
  async run({ session, print }) {
    const { signIns } = session.credentials;
    const url = session.credentials.url();
    const signIn = signIns.of(url);
    if (!signIn) throw new Misused(`not signed in at ${url}`);
    // An access token that has run out is renewed for it: the session is still open.
    if (signIn.kind === 'session')
      await session.callSignedIn('auth.logout', { body: {} }).catch(ignoreEnded);
    signIns.keep(url, undefined);
    print(`Signed out of ${url}.`);
  },
};

/** A session that has ended can't be ended. */
function ignoreEnded(error: unknown): void {
  const isOver = error instanceof Failed && error.code.startsWith('auth_');
  if (!isOver) throw error;
}

const whoami: Command<HttpSession> = {
  name: 'whoami',
  parameters: '',
  summary: 'who the command line acts as, and where',
  async run({ session, answer }) {
    const identity = await session.call('auth.me', {});
    answer(identity, () => columns([rowOf(session.credentials.url(), identity)]));
  },
};

const switchTenant: Command<HttpSession> = {
  name: 'switch',
  parameters: '<name>',
  summary: 'continue in another of your tenants',
  complete: { name: async (session) => (await session.tenants()).map(({ name }) => name) },
  async run({ session, args: { name }, answer }) {
    const url = session.credentials.url();
    const { signIns } = session.credentials;
    if (signIns.of(url)?.kind !== 'session')
      throw new Misused('a key is of one tenant; sign in with strata login --email <address>');
    const body = given({ tenant_id: await tenantId(session, name!) });
    const pair = await session.call('auth.switch-tenant', { body });
    signIns.keep(url, sessionOf(pair));
    const { user, tenant, memberships } = pair;
    answer({ user, tenant, memberships }, () => columns([rowOf(url, { user, tenant })]));
  },
};

export const accountCommands: readonly Command<HttpSession>[] = [
  login,
  logout,
  whoami,
  switchTenant,
];

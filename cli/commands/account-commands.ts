/** Commands about people's accounts, for whoever administers the platform. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { Misused, type Command, type Input } from '../command.ts';
import { columns } from '../output.ts';
import type { Session } from '../session.ts';

type Account = ResultOf<'auth.users.patch'>;

const rowOf = ({ email, id, status, display_name }: Account) => ({
  email,
  id,
  status,
  name: display_name ?? '-',
});

/** The account of an address. Throws Misused where there is none. */
async function accountOf(session: Session, email: string): Promise<Account> {
  const { items } = await session.call('auth.users.list', { email });
  const [account] = items;
  if (!account) throw new Misused(`there is no account of ${email}`);
  return account;
}

const find: Command = {
  name: 'accounts find',
  parameters: '<email>',
  summary: 'the account of an address, and whether it is disabled',
  async run({ session, args: { email }, answer }) {
    const account = await accountOf(session, email!);
    answer(account, () => columns([rowOf(account)]));
  },
};

async function become(
  { session, args: { email }, answer }: Input,
  status: Account['status'],
): Promise<void> {
  const { id } = await accountOf(session, email!);
  const account = await session.call('auth.users.patch', { user_id: id, body: { status } });
  answer(account, () => columns([rowOf(account)]));
}

const disable: Command = {
  name: 'accounts disable',
  parameters: '<email>',
  summary: 'ends its sessions; its API keys rest until it is enabled',
  run: (input) => become(input, 'disabled'),
};

const enable: Command = {
  name: 'accounts enable',
  parameters: '<email>',
  summary: 'its person can sign in again',
  run: (input) => become(input, 'active'),
};

export const accountCommands: readonly Command[] = [find, disable, enable];

/**
 * Accounts of people, for the platform's administrators: found by address, what keeps each out,
 * disabled and enabled, and begun again for whoever has lost what they sign in with.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { query, setQuery } from '../address.ts';
import { call, withQuery } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { usePages } from '../pages.ts';
import { Notice, RowButton, ShowMore, Table, Waiting } from '../lists.tsx';
import { Empty, Heading, Time } from '../parts.tsx';

type Account = ResultOf<'auth.users.list'>['items'][number];
type Change = 'disable' | 'enable' | 'recover';
interface Open {
  readonly what: Change;
  readonly account: Account;
}

export function Accounts(): VNode {
  const wanted = query.value.get('email') ?? '';
  const { items, isComplete, problem, more, reload } = usePages<Account>(
    withQuery('/auth/users', { email: wanted.trim() }),
    false,
  );
  const [typed, setTyped] = useState(wanted);
  const [open, setOpen] = useState<Open>();
  const [said, setSaid] = useState<string>();
  const find = (event: Event): void => {
    event.preventDefault();
    setQuery({ email: typed.trim() });
  };
  const done = (says: string): void => {
    setOpen(undefined);
    setSaid(says);
    reload();
  };
  return (
    <section>
      <Heading title="Accounts" />
      <form role="search" class="question" onSubmit={find}>
        <label>
          Address
          <input
            type="search"
            name="email"
            value={typed}
            placeholder="the whole address"
            maxlength={254}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
          />
        </label>
        <button type="submit">Find</button>
      </form>
      <Notice says={said} />
      <Waiting data={items} problem={problem} retry={reload} />
      {items?.length === 0 && <Empty>No account has this address.</Empty>}
      {items && items.length > 0 && <AccountTable accounts={items} onOpen={setOpen} />}
      {items && !isComplete && <ShowMore onClick={more} />}
      {open && <ChangeAccount {...open} onClose={() => setOpen(undefined)} onChanged={done} />}
    </section>
  );
}

/** What keeps somebody from signing in, as far as their account says. */
function keptOutBy({ status, email_verified: isVerified }: Account): string {
  if (status === 'disabled') return 'the account is disabled';
  return isVerified ? '–' : 'no mailed link was followed yet';
}

function AccountTable({
  accounts,
  onOpen,
}: {
  readonly accounts: readonly Account[];
  readonly onOpen: (open: Open) => void;
}): VNode {
  return (
    <Table
      label="Accounts"
      look="lines"
      columns={[
        'Person',
        'Status',
        'Kept out by',
        { wide: 'Id' },
        { wide: 'Created' },
        { unseen: 'Actions' },
      ]}
    >
      {accounts.map((account) => {
        const { id, email, display_name: name, status, created_at: made } = account;
        const turn = status === 'active' ? 'disable' : 'enable';
        return (
          <tr key={id}>
            <th scope="row">
              <bdi>{email}</bdi>
              {name !== null && (
                <div class="fine">
                  <bdi>{name}</bdi>
                </div>
              )}
            </th>
            <td>
              <span class={`state-of ${status}`}>{status}</span>
            </td>
            <td>{keptOutBy(account)}</td>
            <td class="wide">
              <code>{id}</code>
            </td>
            <td class="wide">
              <Time at={made} />
            </td>
            <td class="action">
              <RowButton label={`${turn} ${email}`} onClick={() => onOpen({ what: turn, account })}>
                {turn === 'disable' ? 'Disable…' : 'Enable…'}
              </RowButton>{' '}
              <RowButton
                label={`recover ${email}`}
                onClick={() => onOpen({ what: 'recover', account })}
              >
                Recover…
              </RowButton>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}

const changes = {
  disable: {
    verb: 'Disable the account',
    says: 'Its sessions end on every node, its API keys are refused, and it decides nothing, in every tenant. Nothing is removed: enabling it gives all of that back but the sessions.',
    done: 'is disabled.',
  },
  enable: {
    verb: 'Enable the account',
    says: 'Its person can sign in again, with the memberships that they have.',
    done: 'is enabled.',
  },
  recover: {
    verb: 'Recover the account',
    says: 'For a person who has lost their passkey or provider: the password, passkeys, linked providers, sessions and API keys of the account end, and a mailed link lets them begin again. Be sure that they ask for it themselves.',
    done: 'is sent a link by mail.',
  },
} as const satisfies Record<Change, object>;

function ChangeAccount({
  what,
  account: { id, email },
  onClose,
  onChanged,
}: Open & {
  readonly onClose: () => void;
  readonly onChanged: (says: string) => void;
}): VNode {
  const { verb, says, done } = changes[what];
  const work = async (): Promise<void> => {
    if (what === 'recover') await call('POST', `/auth/users/${id}/recover`);
    else {
      const status = what === 'disable' ? 'disabled' : 'active';
      await call('PATCH', `/auth/users/${id}`, { body: { status } });
    }
    onChanged(`${email} ${done}`);
  };
  return (
    <FormDialog
      title={`${verb} of ${email}`}
      verb={verb}
      isDangerous={what !== 'enable'}
      work={work}
      onClose={onClose}
    >
      <p>{says}</p>
    </FormDialog>
  );
}

/**
 * Accounts of people, for the platform's administrators: found by a part of address or name, what
 * keeps each out, what it is entered with and where it is open; disabled and enabled, and begun again
 * for whoever has lost what they sign in with.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, parameter, setQuery } from '../address.ts';
import { call, withQuery } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { usePages } from '../pages.ts';
import { Notice, RowButton, ShowMore, Table, Waiting } from '../lists.tsx';
import { useGet } from '../loading.ts';
import { Button, Link, Named, State, Time } from '../inline.tsx';
import { Fact, Heading, Section } from '../parts.tsx';
import { roleText } from '../roles.ts';
import type { ScreenProperties } from './screen.ts';
import { Field, Form } from '../fields.tsx';

type Account = ResultOf<'auth.users.list'>['items'][number];
type Detail = ResultOf<'auth.users.read'>;
type Change = 'disable' | 'enable' | 'recover';
interface Open {
  readonly what: Change;
  readonly account: Account;
}

export const Accounts = ({ rest: [id] }: ScreenProperties): VNode =>
  id === undefined ? <All /> : <OneAccount key={id} id={id} />;

function All(): VNode {
  const wanted = parameter('q');
  const { items, isComplete, problem, more, reload } = usePages<Account>(
    withQuery('/auth/users', { q: wanted.trim() }),
    false,
  );
  const [typed, setTyped] = useState(wanted);
  const [open, setOpen] = useState<Open>();
  const [said, setSaid] = useState<string>();
  const find = (): void => setQuery({ q: typed.trim() });
  const done = (says: string): void => {
    setOpen(undefined);
    setSaid(says);
    reload();
  };
  return (
    <section>
      <Heading title="Accounts" />
      <Form role="search" class="question" onSend={find}>
        <Field
          label="Address or name"
          type="search"
          name="q"
          value={typed}
          placeholder="a part of either"
          maxlength={200}
          spellcheck={false}
          onValue={setTyped}
        />
        <Button type="submit" says="Find" />
      </Form>
      <Notice says={said} />
      <Waiting data={items} problem={problem} retry={reload} />
      <AccountTable accounts={items} onOpen={setOpen} />
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

const turnOf = ({ status }: Pick<Account, 'status'>) =>
  status === 'active' ? 'disable' : 'enable';
const turnSays = (account: Pick<Account, 'status'>): string =>
  turnOf(account) === 'disable' ? 'Disable…' : 'Enable…';

function AccountTable({
  accounts,
  onOpen,
}: {
  readonly accounts: readonly Account[] | undefined;
  readonly onOpen: (open: Open) => void;
}): VNode {
  return (
    <Table
      label="Accounts"
      look="lines"
      items={accounts}
      empty="No account has this in its address or name."
      columns={[
        [
          'Person',
          ({ id, email, display_name: name }) => (
            <Named to={`/platform/accounts/${id}`} below={name}>
              {email}
            </Named>
          ),
        ],
        ['Status', ({ status }) => <State state={status} />],
        ['Kept out by', keptOutBy],
        [{ wide: 'Id' }, ({ id }) => <code>{id}</code>],
        [{ wide: 'Created' }, ({ created_at: at }) => <Time at={at} />],
        [
          { unseen: 'Actions' },
          (account) => (
            <>
              <RowButton
                says={turnSays(account)}
                label={`${turnOf(account)} ${account.email}`}
                onClick={() => onOpen({ what: turnOf(account), account })}
              />{' '}
              <RowButton
                says="Recover…"
                label={`recover ${account.email}`}
                onClick={() => onOpen({ what: 'recover', account })}
              />
            </>
          ),
        ],
      ]}
    />
  );
}

function OneAccount({ id }: { readonly id: string }): VNode {
  const { data, problem, reload } = useGet<Detail>(`/auth/users/${encodeURIComponent(id)}`);
  const [change, setChange] = useState<Change>();
  const [said, setSaid] = useState<string>();
  const done = (says: string): void => {
    setChange(undefined);
    setSaid(says);
    reload();
  };
  return (
    <section>
      <Heading title={data?.email ?? 'Account'}>
        {data && <State state={data.status} />}
        <span class="grow"></span>
        {data && (
          <>
            <Button class="secondary" says="Recover…" onClick={() => setChange('recover')} />
            <Button
              class={turnOf(data) === 'disable' ? 'danger' : ''}
              says={turnSays(data)}
              onClick={() => setChange(turnOf(data))}
            />
          </>
        )}
      </Heading>
      <Notice says={said} />
      <Waiting
        data={data}
        problem={problem}
        retry={reload}
        unknown="There is no account with this id."
      />
      {data && <AccountFacts account={data} />}
      {data && <Sessions sessions={data.sessions} />}
      {data && change && (
        <ChangeAccount
          what={change}
          account={data}
          onClose={() => setChange(undefined)}
          onChanged={done}
        />
      )}
    </section>
  );
}

const keptOut: Readonly<Record<Detail['kept_out_by'][number], string>> = {
  account_disabled: 'The account is disabled.',
  address_unproved: 'No mailed link was followed yet: the invitation waits for its reader.',
  no_way_in: 'The account has no password, passkey or provider. A reset link makes a password.',
  no_tenant: 'The person is a member of no tenant that is active.',
  policy: 'Every tenant of the person wants a passkey or a provider, and the account has neither.',
};

/** Such as "password, 2 passkeys". */
function waysIn({ password, passkeys, providers }: Detail['signs_in_with']): string {
  const ways = [
    ...(password ? ['password'] : []),
    ...(passkeys > 0 ? [`${passkeys} ${passkeys === 1 ? 'passkey' : 'passkeys'}`] : []),
    ...providers,
  ];
  return ways.length === 0 ? 'nothing' : ways.join(', ');
}

function AccountFacts({ account }: { readonly account: Detail }): VNode {
  const { id, display_name: name, memberships, kept_out_by: reasons } = account;
  const happened = withQuery('/platform/audit', { target: id, action: 'auth.' });
  return (
    <div>
      {reasons.length > 0 ? (
        <div class="warning" role="status">
          <p>
            <strong>This person cannot sign in, or acts nowhere:</strong>
          </p>
          <ul>
            {reasons.map((reason) => (
              <li key={reason}>{keptOut[reason]}</li>
            ))}
          </ul>
        </div>
      ) : (
        <p class="notice">
          Nothing about the account keeps its person out. Wrong passwords and what was refused are
          in the <a href={hrefOf(happened)}>audit of the account</a>.
        </p>
      )}
      <dl class="facts">
        <Fact name="Name" says={name === null ? '–' : <bdi>{name}</bdi>} />
        <Fact name="Signs in with" says={waysIn(account.signs_in_with)} />
        <Fact name="Platform">
          {account.platform_roles.length === 0 ? 'no role' : 'administrator'}
        </Fact>
        <Fact name="Tenants">
          {memberships.length === 0 && 'none'}
          {memberships.map(({ tenant_id: tenant, name: called, status, roles }) => (
            <div key={tenant}>
              <Link to={withQuery('/platform/tenants', { q: called })}>{called}</Link>{' '}
              <span class="muted">
                {roleText(roles)}
                {status === 'disabled' && ', tenant disabled'}
              </span>
            </div>
          ))}
        </Fact>
        <Fact name="Created" says={<Time at={account.created_at} />} />
        <Fact name="Id" says={<code>{id}</code>} />
        <Fact name="What happened" says={<a href={hrefOf(happened)}>Audit of the account</a>} />
      </dl>
    </div>
  );
}

const Sessions = ({ sessions }: { readonly sessions: Detail['sessions'] }): VNode => (
  <Section title="Sessions">
    <Table
      label="Sessions of the account"
      items={sessions}
      empty="The account is signed in nowhere."
      columns={[
        ['Browser or program', (each) => <bdi>{each.user_agent ?? 'unknown'}</bdi>],
        ['Address', (each) => each.ip ?? '–'],
        ['By', (each) => each.method.replaceAll('_', ' ')],
        ['Last used', (each) => <Time at={each.last_used_at} />],
        [{ wide: 'Began' }, (each) => <Time at={each.created_at} />],
      ]}
    />
    <p class="fine">
      Disabling ends all of them at once, on every node; enabling does not bring them back.
    </p>
  </Section>
);

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
    says: 'For a person who has lost their passkey or provider: the password, passkeys, linked providers, sessions and API keys of the account end, and a mailed link lets them start again. Be sure that they ask for it themselves.',
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

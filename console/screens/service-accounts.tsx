/**
 * Service accounts: programs that act in the tenant with roles and API keys of their own, which
 * outlive whoever made them.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { go, hrefOf, ofTenant, wantedText } from '../address.ts';
import { call } from '../api.ts';
import { Choices, FormDialog } from '../dialogs.tsx';
import { useList } from '../loading.ts';
import { Field, FilterField, Filters, fitting, useFields } from '../fields.tsx';
import { Table, Waiting } from '../lists.tsx';
import { Button, Named, State, Time, Who } from '../inline.tsx';
import { Empty, Fact, Heading, ProblemBox } from '../parts.tsx';
import { roleChoices, roleText } from '../roles.ts';
import { ApiKeys } from './api-keys.tsx';
import { isSame } from './rights.tsx';
import type { ScreenProperties } from './screen.ts';
import { TrustRules } from './trust.tsx';

type Account = ResultOf<'tenant-config.service-accounts.list'>['items'][number];

const accountsAddress = (): string => ofTenant('/service-accounts');

export function ServiceAccounts({ rest: [id] }: ScreenProperties): VNode {
  const address = accountsAddress();
  const { data, problem, reload } = useList<Account>(address);
  if (id === undefined) return <List accounts={data} problem={problem} reload={reload} />;
  const account = data?.find((each) => each.id === id);
  if (account) return <OneAccount key={id} account={account} reload={reload} />;
  return (
    <section>
      <Heading title="Service account" />
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <Empty>
          There is no such account. <a href={hrefOf(address)}>All service accounts</a>
        </Empty>
      )}
    </section>
  );
}

interface Reading {
  readonly accounts: readonly Account[] | undefined;
  readonly problem: Parameters<typeof ProblemBox>[0]['problem'];
  readonly reload: () => void;
}

function List({ accounts, problem, reload }: Reading): VNode {
  const [isMaking, setMaking] = useState(false);
  const address = accountsAddress();
  const wanted = wantedText();
  const shown = fitting(accounts, ({ name, description, roles }) =>
    [name, description, ...roles].join(' '),
  );
  const make = async (body: Partial<AccountFields>): Promise<void> => {
    const { body: made } = await call<Account>('POST', address, { body });
    reload();
    go(`${address}/${made.id}`);
  };
  return (
    <section>
      <Heading title="Service accounts">
        {accounts && <span class="fine number">{accounts.length}</span>}
        <span class="grow"></span>
        <Button says="New account…" onClick={() => setMaking(true)} />
      </Heading>
      <p class="fine">
        A program or pipeline with its own roles. What it does is written down under its name.
      </p>
      <Filters class="question one">
        <FilterField placeholder="name, purpose or role" />
      </Filters>
      <Waiting data={accounts} problem={problem} retry={reload} />
      <Table
        label="Service accounts"
        items={shown}
        empty={
          wanted === ''
            ? 'No service account yet. Create one for a pipeline or program, then give it a key.'
            : 'None fits the filter.'
        }
        columns={[
          [
            'Name',
            (account) => (
              <Named to={`${address}/${account.id}`} below={account.description}>
                {account.name}
              </Named>
            ),
          ],
          ['Roles', (account) => roleText(account.roles)],
          ['Status', (account) => <State state={account.status} />],
          [{ wide: 'Created by' }, (account) => <Who id={account.created_by} />],
          [{ wide: 'When' }, (account) => <Time at={account.created_at} />],
        ]}
      />
      {isMaking && (
        <AccountForm
          title="New service account"
          verb="Create account"
          onClose={() => setMaking(false)}
          onSave={make}
        />
      )}
    </section>
  );
}

interface AccountFields {
  readonly name: string;
  readonly description: string | null;
  readonly roles: readonly string[];
}

function AccountForm({
  title,
  verb,
  account,
  onClose,
  onSave,
}: {
  readonly title: string;
  readonly verb: string;
  readonly account?: Account;
  readonly onClose: () => void;
  /** Of an account that is there those alone that were changed. */
  readonly onSave: (fields: Partial<AccountFields>) => Promise<void>;
}): VNode {
  const [before] = useState(account);
  const { typed, field } = useFields({
    name: account?.name ?? '',
    description: account?.description ?? '',
  });
  const [roles, setRoles] = useState<readonly string[]>(account?.roles ?? ['viewer']);
  const work = (): Promise<void> => {
    const [name, purpose] = [typed.name.trim(), typed.description.trim()];
    const description = purpose === '' ? null : purpose;
    // What was not touched stays as somebody else may have made it meanwhile.
    return onSave({
      ...(name !== before?.name && { name }),
      ...(description !== before?.description && { description }),
      ...(!isSame(roles, before?.roles ?? []) && { roles }),
    });
  };
  return (
    <FormDialog title={title} verb={verb} work={work} onClose={onClose}>
      <Field
        label="Name"
        required
        maxlength={100}
        placeholder="such as deploy-pipeline"
        {...field('name')}
      />
      <Field label="What it is for" maxlength={500} {...field('description')} />
      <Choices label="Roles" options={roleChoices} chosen={roles} onChange={setRoles} />
    </FormDialog>
  );
}

type Doing = 'change' | 'disable' | 'remove';

function OneAccount({
  account,
  reload,
}: {
  readonly account: Account;
  readonly reload: () => void;
}): VNode {
  const [doing, setDoing] = useState<Doing>();
  const close = (): void => setDoing(undefined);
  const all = accountsAddress();
  const address = `${all}/${account.id}`;
  const isActive = account.status === 'active';
  const patch = async (body: object): Promise<void> => {
    if (Object.keys(body).length > 0) await call('PATCH', address, { body });
    close();
    reload();
  };
  const remove = async (): Promise<void> => {
    await call('DELETE', address);
    reload();
    go(all);
  };
  return (
    <section>
      <Heading title={account.name}>
        <State state={account.status} />
        <span class="grow"></span>
        <Button class="secondary" says="Change…" onClick={() => setDoing('change')} />
        <Button
          class="secondary"
          says={isActive ? 'Disable…' : 'Enable…'}
          onClick={() => setDoing('disable')}
        />
        <Button class="danger" says="Remove…" onClick={() => setDoing('remove')} />
      </Heading>
      {account.description !== null && (
        <p class="prose">
          <bdi>{account.description}</bdi>
        </p>
      )}
      <dl class="facts">
        <Fact name="Roles" says={roleText(account.roles)} />
        <Fact name="Created by" says={<Who id={account.created_by} />} />
        <Fact name="Made" says={<Time at={account.created_at} />} />
        <Fact name="Id" says={<code>{account.id}</code>} />
      </dl>
      <ApiKeys
        owner={{ list: `${address}/api-keys`, create: `${address}/api-keys`, isPerson: false }}
      />
      <TrustRules address={address} roles={account.roles} />
      {doing === 'change' && (
        <AccountForm
          title={`Change ${account.name}`}
          verb="Save"
          account={account}
          onClose={close}
          onSave={patch}
        />
      )}
      {doing === 'disable' && (
        <FormDialog
          title={`${isActive ? 'Disable' : 'Enable'} ${account.name}`}
          verb={isActive ? 'Disable' : 'Enable'}
          isDangerous={isActive}
          work={() => patch({ status: isActive ? 'disabled' : 'active' })}
          onClose={close}
        >
          <p>
            {isActive
              ? 'Its API keys and its workloads are refused until it is enabled again.'
              : 'Its API keys are good again, as far as they have not expired.'}
          </p>
        </FormDialog>
      )}
      {doing === 'remove' && (
        <FormDialog
          title={`Remove ${account.name}`}
          verb="Remove"
          isDangerous
          work={remove}
          onClose={close}
        >
          <p>
            Its API keys and its trust end with it, for good. What it did stays in history and
            audit.
          </p>
        </FormDialog>
      )}
    </section>
  );
}

/**
 * Service accounts: programs that act in the tenant with roles and API keys of their own, which
 * outlive whoever made them.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { go, hrefOf, query, setQuery } from '../address.ts';
import { call, getAll } from '../api.ts';
import { Choices, FormDialog } from '../dialogs.ts';
import { html, view } from '../html.ts';
import { useLoaded } from '../loading.ts';
import { Empty, Heading, ProblemBox, TableRegion, Time, Who } from '../parts.ts';
import { roleChoices, roleText } from '../roles.ts';
import { ApiKeys } from './api-keys.ts';
import type { ScreenProperties } from './screen.ts';

type Account = ResultOf<'tenant-config.service-accounts.list'>['items'][number];

const accountsAddress = (tenantId: string): string => `/tenants/${tenantId}/service-accounts`;

export function ServiceAccounts({ tenantId, rest }: ScreenProperties): VNode {
  const [id] = rest;
  const address = accountsAddress(tenantId);
  const { data, problem, reload } = useLoaded(address, (aborted) =>
    getAll<Account>(address, aborted),
  );
  if (id === undefined) return view(List, { tenantId, accounts: data, problem, reload });
  const account = data?.find((each) => each.id === id);
  if (account) return view(OneAccount, { key: id, tenantId, account, reload });
  return html`<section>
    <${Heading} title="Service account" />
    ${view(ProblemBox, { problem, retry: reload })}
    ${!data && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${data && html`<${Empty}>There is no such account. <a href=${hrefOf(address)}>All service accounts</a><//>`}
  </section>`;
}

interface Reading {
  readonly tenantId: string;
  readonly accounts: readonly Account[] | undefined;
  readonly problem: Parameters<typeof ProblemBox>[0]['problem'];
  readonly reload: () => void;
}

function List({ tenantId, accounts, problem, reload }: Reading): VNode {
  const [isMaking, setMaking] = useState(false);
  const address = accountsAddress(tenantId);
  const wanted = (query.value.get('q') ?? '').trim().toLowerCase();
  const shown = accounts?.filter(({ name, description, roles }) =>
    [name, description, ...roles].join(' ').toLowerCase().includes(wanted),
  );
  const make = async (body: AccountFields): Promise<void> => {
    const { body: made } = await call<Account>('POST', address, { body });
    reload();
    go(`${address}/${made.id}`);
  };
  return html`<section>
    <${Heading} title="Service accounts">
      ${accounts && html`<span class="fine number">${accounts.length}</span>`}
      <span class="grow"></span>
      <button type="button" onClick=${() => setMaking(true)}>New account…</button>
    <//>
    <p class="fine">A program or pipeline with roles of its own. What it does is written down under its name.</p>
    <form role="search" class="question one" onSubmit=${(event: Event) => event.preventDefault()}>
      <label>
        Filter
        <input type="search" name="q" value=${query.value.get('q') ?? ''} placeholder="name, purpose or role" autocomplete="off" spellcheck=${false}
          onInput=${(event: InputEvent) => setQuery({ q: (event.target as HTMLInputElement).value })} />
      </label>
    </form>
    ${view(ProblemBox, { problem, retry: reload })}
    ${!accounts && !problem && html`<p class="empty" role="status">Loading…</p>`}
    ${shown?.length === 0 && html`<${Empty}>${wanted === '' ? 'There is none yet.' : 'None fits the filter.'}<//>`}
    ${
      shown &&
      shown.length > 0 &&
      html`<${TableRegion} label="Service accounts">
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Roles</th>
              <th scope="col">Status</th>
              <th scope="col" class="wide">Made by</th>
              <th scope="col" class="wide">When</th>
            </tr>
          </thead>
          <tbody>
            ${shown.map(
              (account) => html`<tr key=${account.id}>
                <th scope="row">
                  <a href=${hrefOf(`${address}/${account.id}`)}><bdi>${account.name}</bdi></a>
                  ${account.description !== null && html`<div class="fine"><bdi>${account.description}</bdi></div>`}
                </th>
                <td>${roleText(account.roles)}</td>
                <td><span class=${`state-of ${account.status}`}>${account.status}</span></td>
                <td class="wide"><${Who} id=${account.created_by} /></td>
                <td class="wide"><${Time} at=${account.created_at} /></td>
              </tr>`,
            )}
          </tbody>
        </table>
      <//>`
    }
    ${isMaking && view(AccountForm, { title: 'New service account', verb: 'Make the account', onClose: () => setMaking(false), onSave: make })}
  </section>`;
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
  readonly onSave: (fields: AccountFields) => Promise<void>;
}): VNode {
  const [name, setName] = useState(account?.name ?? '');
  const [description, setDescription] = useState(account?.description ?? '');
  const [roles, setRoles] = useState<readonly string[]>(account?.roles ?? ['viewer']);
  const work = (): Promise<void> => {
    const purpose = description.trim();
    return onSave({ name: name.trim(), description: purpose === '' ? null : purpose, roles });
  };
  return html`<${FormDialog} title=${title} verb=${verb} work=${work} onClose=${onClose}>
    <label>
      Name
      <input name="name" required maxlength="100" autocomplete="off" placeholder="such as deploy-pipeline" value=${name}
        onInput=${(event: InputEvent) => setName((event.target as HTMLInputElement).value)} />
    </label>
    <label>
      What it is for
      <input name="description" maxlength="500" autocomplete="off" value=${description}
        onInput=${(event: InputEvent) => setDescription((event.target as HTMLInputElement).value)} />
    </label>
    ${view(Choices, { label: 'Roles', options: roleChoices, chosen: roles, onChange: setRoles })}
  <//>`;
}

type Doing = 'change' | 'disable' | 'remove';

function OneAccount({
  tenantId,
  account,
  reload,
}: {
  readonly tenantId: string;
  readonly account: Account;
  readonly reload: () => void;
}): VNode {
  const [doing, setDoing] = useState<Doing>();
  const close = (): void => setDoing(undefined);
  const address = `${accountsAddress(tenantId)}/${account.id}`;
  const isActive = account.status === 'active';
  const patch = async (body: object): Promise<void> => {
    await call('PATCH', address, { body });
    close();
    reload();
  };
  const remove = async (): Promise<void> => {
    await call('DELETE', address);
    reload();
    go(accountsAddress(tenantId));
  };
  return html`<section>
    <p class="fine"><a href=${hrefOf(accountsAddress(tenantId))}>All service accounts</a></p>
    <${Heading} title=${account.name}>
      <span class=${`state-of ${account.status}`}>${account.status}</span>
      <span class="grow"></span>
      <button type="button" class="secondary" onClick=${() => setDoing('change')}>Change…</button>
      <button type="button" class="secondary" onClick=${() => setDoing('disable')}>${isActive ? 'Disable…' : 'Enable…'}</button>
      <button type="button" class="danger" onClick=${() => setDoing('remove')}>Remove…</button>
    <//>
    ${account.description !== null && html`<p class="prose"><bdi>${account.description}</bdi></p>`}
    <dl class="facts">
      <div><dt>Roles</dt><dd>${roleText(account.roles)}</dd></div>
      <div><dt>Made by</dt><dd><${Who} id=${account.created_by} /></dd></div>
      <div><dt>Made</dt><dd><${Time} at=${account.created_at} /></dd></div>
      <div><dt>Id</dt><dd><code>${account.id}</code></dd></div>
    </dl>
    ${view(ApiKeys, { owner: { list: `${address}/api-keys`, create: `${address}/api-keys`, isPerson: false } })}
    ${doing === 'change' && view(AccountForm, { title: `Change ${account.name}`, verb: 'Save', account, onClose: close, onSave: patch })}
    ${
      doing === 'disable' &&
      html`<${FormDialog} title=${`${isActive ? 'Disable' : 'Enable'} ${account.name}`} verb=${isActive ? 'Disable' : 'Enable'} isDangerous=${isActive}
        work=${() => patch({ status: isActive ? 'disabled' : 'active' })} onClose=${close}>
        <p>${isActive ? 'Its API keys are refused until it is enabled again.' : 'Its API keys are good again, as far as they have not expired.'}</p>
      <//>`
    }
    ${
      doing === 'remove' &&
      html`<${FormDialog} title=${`Remove ${account.name}`} verb="Remove" isDangerous=${true} work=${remove} onClose=${close}>
        <p>Its API keys end with it, for good. What it did stays in history and audit.</p>
      <//>`
    }
  </section>`;
}

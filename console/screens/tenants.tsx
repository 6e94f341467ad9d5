/**
 * The tenants of the platform: found by name, created with their first administrator, renamed,
 * disabled and enabled, and deleted.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { query, setQuery } from '../address.ts';
import { call, problemOf, withQuery, type Problem } from '../api.ts';
import { usePages } from '../pages.ts';
import {
  Columns,
  Dialog,
  Empty,
  Heading,
  Loading,
  ProblemBox,
  TableRegion,
  Time,
} from '../parts.tsx';

type Tenant = ResultOf<'tenant-config.tenants.list'>['items'][number];
type Created = ResultOf<'tenant-config.tenants.create'>;

type Open = { readonly what: 'new' } | { readonly what: Change; readonly tenant: Tenant };

/** A tenant is disabled before it can be deleted. */
type Change = 'rename' | 'disable' | 'enable' | 'delete';

export function Tenants(): VNode {
  const wanted = query.value.get('q') ?? '';
  const status = query.value.get('status') ?? '';
  const q = wanted.trim();
  const { items, isComplete, problem, more, reload } = usePages<Tenant>(
    withQuery('/tenants', { q }),
    status !== '',
  );
  const [open, setOpen] = useState<Open>();
  const [created, setCreated] = useState<Created>();
  const close = (): void => setOpen(undefined);
  const done = (): void => {
    close();
    reload();
  };
  const shown = items?.filter((tenant) => status === '' || tenant.status === status);
  return (
    <section>
      <Heading title="Tenants">
        <span class="grow"></span>
        <button type="button" onClick={() => setOpen({ what: 'new' })}>
          New tenant…
        </button>
      </Heading>
      <form role="search" class="question two" onSubmit={(event) => event.preventDefault()}>
        <label>
          Name
          <input
            type="search"
            name="q"
            value={wanted}
            placeholder="part of the name"
            maxlength={200}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => setQuery({ q: currentTarget.value })}
          />
        </label>
        <label>
          Status
          <select
            name="status"
            value={status}
            onChange={({ currentTarget }) => setQuery({ status: currentTarget.value })}
          >
            <option value="">any</option>
            <option value="active">active</option>
            <option value="disabled">disabled</option>
          </select>
        </label>
      </form>
      <ProblemBox problem={problem} retry={reload} />
      {created && <Welcome created={created} />}
      {!items && !problem && <Loading />}
      {shown?.length === 0 && isComplete && (
        <Empty>{q === '' && status === '' ? 'There is no tenant yet.' : 'No tenant fits.'}</Empty>
      )}
      {shown && shown.length > 0 && <TenantTable tenants={shown} onOpen={setOpen} />}
      {items && !isComplete && (
        <p class="paging">
          <button type="button" class="small" onClick={more}>
            Show more
          </button>
        </p>
      )}
      {open?.what === 'new' && (
        <NewTenant
          onClose={close}
          onCreated={(tenant) => {
            setCreated(tenant);
            done();
          }}
        />
      )}
      {open && open.what !== 'new' && <ChangeTenant {...open} onClose={close} onChanged={done} />}
    </section>
  );
}

const Welcome = ({ created }: { readonly created: Created }): VNode => (
  <p class="notice" role="status">
    <strong>
      <bdi>{created.name}</bdi> is there.
    </strong>{' '}
    {created.admin.status === 'invited' ? (
      <span>
        <bdi>{created.admin.email}</bdi> is invited by mail and administers it once they accept.
      </span>
    ) : (
      <span>
        <bdi>{created.admin.email}</bdi> administers it.
      </span>
    )}
  </p>
);

function TenantTable({
  tenants,
  onOpen,
}: {
  readonly tenants: readonly Tenant[];
  readonly onOpen: (open: Open) => void;
}): VNode {
  return (
    <TableRegion label="Tenants">
      <table class="lines">
        <Columns titles={['Name', 'Status', { wide: 'Id' }, 'Made', { unseen: 'Actions' }]} />
        <tbody>
          {tenants.map((tenant) => {
            const { id, name, status, created_at: made, erase_at: eraseAt } = tenant;
            const turn = status === 'active' ? 'disable' : 'enable';
            return (
              <tr key={id}>
                <th scope="row">
                  <bdi>{name}</bdi>
                </th>
                <td>
                  <span class={`state-of ${status}`}>{status}</span>
                  {eraseAt !== null && (
                    <div class="fine">
                      erased <Time at={eraseAt} />
                    </div>
                  )}
                </td>
                <td class="wide">
                  <code>{id}</code>
                </td>
                <td>
                  <Time at={made} />
                </td>
                <td class="action">
                  <button
                    type="button"
                    class="small"
                    aria-label={`Rename ${name}`}
                    onClick={() => onOpen({ what: 'rename', tenant })}
                  >
                    Rename…
                  </button>{' '}
                  <button
                    type="button"
                    class="small"
                    aria-label={`${turn} ${name}`}
                    onClick={() => onOpen({ what: turn, tenant })}
                  >
                    {turn === 'disable' ? 'Disable…' : 'Enable…'}
                  </button>{' '}
                  {status === 'disabled' && eraseAt === null && (
                    <button
                      type="button"
                      class="small danger"
                      aria-label={`Delete ${name}`}
                      onClick={() => onOpen({ what: 'delete', tenant })}
                    >
                      Delete…
                    </button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </TableRegion>
  );
}

/** What a dialog with one request has to remember. */
function useSending(): {
  readonly isBusy: boolean;
  readonly problem: Problem | undefined;
  readonly send: (work: () => Promise<void>) => Promise<void>;
} {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const send = async (work: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(problemOf(error));
      setBusy(false);
    }
  };
  return { isBusy, problem, send };
}

function NewTenant({
  onClose,
  onCreated,
}: {
  readonly onClose: () => void;
  readonly onCreated: (created: Created) => void;
}): VNode {
  const { isBusy, problem, send } = useSending();
  const create = (event: Event): void => {
    event.preventDefault();
    const fields = new FormData(event.target as HTMLFormElement);
    const text = (name: string): string => String(fields.get(name)).trim();
    void send(async () => {
      const body = { name: text('name'), admin: { email: text('email') } };
      const answer = await call<Created>('POST', '/tenants', { body });
      onCreated(answer.body);
    });
  };
  return (
    <Dialog title="New tenant" onClose={onClose}>
      <form onSubmit={create}>
        <ProblemBox problem={problem} />
        <label>
          Name <input name="name" required maxlength={200} autocomplete="off" />
        </label>
        <label>
          E-mail of its first administrator
          <input name="email" type="email" required autocomplete="off" />
          <small>
            They are invited by mail. The tenant begins with the risk limits of the settings and the
            active service types.
          </small>
        </label>
        <footer>
          <button type="button" class="secondary" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" aria-busy={isBusy} disabled={isBusy}>
            Create the tenant
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

const verbs = {
  rename: 'Rename the tenant',
  disable: 'Disable the tenant',
  enable: 'Enable the tenant',
  delete: 'Delete the tenant',
} as const satisfies Record<Change, string>;

function ChangeTenant({
  what,
  tenant,
  onClose,
  onChanged,
}: {
  readonly what: Change;
  readonly tenant: Tenant;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}): VNode {
  const { isBusy, problem, send } = useSending();
  const [name, setName] = useState(what === 'delete' ? '' : tenant.name);
  const change = (event: Event): void => {
    event.preventDefault();
    const status = what === 'disable' ? 'disabled' : 'active';
    const body = what === 'rename' ? { name: name.trim() } : { status };
    void send(async () => {
      if (what === 'delete') await call('DELETE', `/tenants/${tenant.id}`);
      else await call('PATCH', `/tenants/${tenant.id}`, { body });
      onChanged();
    });
  };
  return (
    <Dialog title={`${verbs[what]} ${tenant.name}`} onClose={onClose}>
      <form onSubmit={change}>
        <ProblemBox problem={problem} />
        {what === 'rename' && (
          <label>
            Name{' '}
            <input
              name="name"
              required
              maxlength={200}
              autocomplete="off"
              value={name}
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          </label>
        )}
        {what === 'disable' && (
          <p>
            Its members and API keys are refused at once, on every node: they read and write nothing
            of it until it is enabled again. Nothing of it is deleted.
          </p>
        )}
        {what === 'delete' && (
          <div>
            <p>
              Everything of it is erased for good once the days of{' '}
              <code>TENANT_ERASE_AFTER_DAYS</code> have passed. Enabling it until then takes that
              back.
            </p>
            <label>
              Its name, to be sure{' '}
              <input
                name="name"
                required
                autocomplete="off"
                value={name}
                onInput={({ currentTarget }) => setName(currentTarget.value)}
              />
            </label>
          </div>
        )}
        {what === 'enable' && (
          <p>Its members and API keys may act for it again, with the roles that they had.</p>
        )}
        <footer>
          <button type="button" class="secondary" onClick={onClose}>
            Cancel
          </button>
          <button
            type="submit"
            class={what === 'disable' || what === 'delete' ? 'danger' : ''}
            aria-busy={isBusy}
            disabled={isBusy || (what === 'delete' && name !== tenant.name)}
          >
            {verbs[what]}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

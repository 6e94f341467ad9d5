/**
 * The tenants of the platform: found by name, created with their first administrator, renamed,
 * disabled and enabled, and deleted.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { parameter } from '../address.ts';
import { call, withQuery } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { usePages } from '../pages.ts';
import { RowButton, ShowMore, Table, Waiting } from '../lists.tsx';
import { anyOf, Field, FilterField, Filters, SelectField, useFields } from '../fields.tsx';
import { Button, State, Time } from '../inline.tsx';
import { Heading } from '../parts.tsx';
import { LookInside } from '../visit.tsx';

type Tenant = ResultOf<'tenant-config.tenants.list'>['items'][number];
type Created = ResultOf<'tenant-config.tenants.create'>;

type Open =
  | { readonly what: 'new' }
  | { readonly what: 'visit'; readonly tenant: Tenant }
  | { readonly what: Change; readonly tenant: Tenant };

/** A tenant is disabled before it can be deleted. */
type Change = 'rename' | 'disable' | 'enable' | 'delete';

export function Tenants(): VNode {
  const wanted = parameter('q');
  const status = parameter('status');
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
        <Button says="New tenant…" onClick={() => setOpen({ what: 'new' })} />
      </Heading>
      <Filters class="question two">
        <FilterField label="Name" placeholder="part of the name" maxlength={200} />
        <SelectField name="status" label="Status" options={anyOf(['active', 'disabled'])} />
      </Filters>
      {created && <Welcome created={created} />}
      <Waiting data={items} problem={problem} retry={reload} />
      <TenantTable
        tenants={shown}
        empty={
          isComplete && (q === '' && status === '' ? 'There is no tenant yet.' : 'No tenant fits.')
        }
        onOpen={setOpen}
      />
      {items && !isComplete && <ShowMore onClick={more} />}
      {open?.what === 'new' && (
        <NewTenant
          onClose={close}
          onCreated={(tenant) => {
            setCreated(tenant);
            done();
          }}
        />
      )}
      {open?.what === 'visit' && <LookInside tenant={open.tenant} onClose={close} />}
      {open && open.what !== 'new' && open.what !== 'visit' && (
        <ChangeTenant {...open} onClose={close} onChanged={done} />
      )}
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
  empty,
  onOpen,
}: {
  readonly tenants: readonly Tenant[] | undefined;
  readonly empty: string | false;
  readonly onOpen: (open: Open) => void;
}): VNode {
  const actions = (tenant: Tenant): VNode => {
    const { name, status, erase_at: eraseAt } = tenant;
    const turn = status === 'active' ? 'disable' : 'enable';
    const button = (what: 'visit' | Change, says: string, label: string): VNode => (
      <RowButton
        says={says}
        label={`${label} ${name}`}
        isDangerous={what === 'delete'}
        onClick={() => onOpen({ what, tenant })}
      />
    );
    return (
      <>
        {status === 'active' && button('visit', 'Look inside…', 'Look inside')}{' '}
        {button('rename', 'Rename…', 'Rename')}{' '}
        {button(turn, turn === 'disable' ? 'Disable…' : 'Enable…', turn)}{' '}
        {status === 'disabled' && eraseAt === null && button('delete', 'Delete…', 'Delete')}
      </>
    );
  };
  return (
    <Table
      label="Tenants"
      look="lines"
      items={tenants}
      empty={empty}
      columns={[
        ['Name', ({ name }) => <bdi>{name}</bdi>],
        [
          'Status',
          ({ status, erase_at: eraseAt }) => (
            <>
              <State state={status} />
              {eraseAt !== null && (
                <div class="fine">
                  erased <Time at={eraseAt} />
                </div>
              )}
            </>
          ),
        ],
        [{ wide: 'Id' }, ({ id }) => <code>{id}</code>],
        ['Created', ({ created_at: at }) => <Time at={at} />],
        [{ unseen: 'Actions' }, actions],
      ]}
    />
  );
}

function NewTenant({
  onClose,
  onCreated,
}: {
  readonly onClose: () => void;
  readonly onCreated: (created: Created) => void;
}): VNode {
  const { typed, field } = useFields({ name: '', email: '' });
  const work = async (): Promise<void> => {
    const body = { name: typed.name.trim(), admin: { email: typed.email.trim() } };
    const answer = await call<Created>('POST', '/tenants', { body });
    onCreated(answer.body);
  };
  return (
    <FormDialog title="New tenant" verb="Create the tenant" work={work} onClose={onClose}>
      <Field label="Name" required maxlength={200} {...field('name')} />
      <Field
        label="E-mail of its first administrator"
        type="email"
        required
        {...field('email')}
        hint="They are invited by mail. The tenant begins with the risk limits of the settings and the active service types."
      />
    </FormDialog>
  );
}

const changes = {
  rename: { verb: 'Rename the tenant', says: '' },
  disable: {
    verb: 'Disable the tenant',
    says: 'Its members and API keys are refused immediately, on every node: they read and write nothing of it until it is enabled again. Nothing of it is deleted.',
  },
  enable: {
    verb: 'Enable the tenant',
    says: 'Its members and API keys may act for it again, with the roles that they had.',
  },
  delete: {
    verb: 'Delete the tenant',
    says: 'Everything of it is erased for good once the days of TENANT_ERASE_AFTER_DAYS have passed. Enabling it until then takes that back.',
  },
} as const satisfies Record<Change, object>;

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
  const [name, setName] = useState(what === 'delete' ? '' : tenant.name);
  const { verb, says } = changes[what];
  const work = async (): Promise<void> => {
    const status = what === 'disable' ? 'disabled' : 'active';
    const body = what === 'rename' ? { name: name.trim() } : { status };
    if (what === 'delete') await call('DELETE', `/tenants/${tenant.id}`);
    else await call('PATCH', `/tenants/${tenant.id}`, { body });
    onChanged();
  };
  const isTyped = what === 'rename' || what === 'delete';
  return (
    <FormDialog
      title={`${verb} ${tenant.name}`}
      verb={verb}
      isDangerous={what === 'disable' || what === 'delete'}
      isReady={what !== 'delete' || name === tenant.name}
      work={work}
      onClose={onClose}
    >
      {says !== '' && <p>{says}</p>}
      {isTyped && (
        <Field
          label={what === 'delete' ? 'Its name, to be sure' : 'Name'}
          name="name"
          required
          maxlength={200}
          value={name}
          onValue={setName}
        />
      )}
    </FormDialog>
  );
}

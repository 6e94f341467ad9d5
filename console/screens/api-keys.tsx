/**
 * API keys of one owner, a person or a service account: what each may do and until when; making,
 * renewing and revoking them.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { call } from '../api.ts';
import { Choices, FormDialog, ShownOnce } from '../dialogs.tsx';
import { useList } from '../loading.ts';
import { Field, useFields } from '../fields.tsx';
import { RowButton, Table, Waiting } from '../lists.tsx';
import { Button, State, Time } from '../inline.tsx';
import { Allowed, narrowingIn, NarrowingFields, notNarrowed } from './narrowing.tsx';

type ApiKey = ResultOf<'auth.api-key.list'>['items'][number];
type Issued = ResultOf<'auth.api-key.create'>;

/** What a key may be allowed, by name; the owner's roles bound it at every use. */
const tenantScopes = [
  { name: 'config:read', says: 'read configuration and effective values' },
  { name: 'config:write', says: 'change configuration' },
  { name: 'approvals:read', says: 'see approvals' },
  { name: 'approvals:write', says: 'ask for approvals' },
  { name: 'approvals:decide', says: 'decide them, where the tenant lets machines' },
  { name: 'approvals:configure', says: 'change who is asked and who decides' },
  { name: 'automations:read', says: 'see what automation runs' },
  { name: 'automations:write', says: 'begin and end automation' },
  { name: 'decide:on_behalf', says: 'ask for others, as a gateway does' },
  { name: 'members:read', says: 'see members and service accounts' },
  { name: 'members:write', says: 'invite viewers and remove members' },
  { name: 'identity:manage', says: 'change who may sign in, and with which roles' },
  { name: 'scim:provision', says: 'say who is a member, as a directory does' },
  { name: 'audit:read', says: 'read the audit' },
];
/** Of a service account. */
export const serviceScopes = tenantScopes;
const personalScopes = [{ name: 'auth:self', says: 'see the own account' }];
const platformScopes = [
  { name: 'platform:read', says: 'read what is the platform’s' },
  { name: 'platform:write', says: 'change it' },
];

interface KeyOwner {
  /** Of the list; a key of it is the same with the key's id behind. */
  readonly list: string;
  /** Where a key is made. */
  readonly create: string;
  readonly isPerson: boolean;
  readonly isPlatformAdmin?: boolean;
}

type Doing =
  | { readonly what: 'make' }
  | { readonly what: 'rotate' | 'revoke'; readonly key: ApiKey }
  | { readonly what: 'show'; readonly issued: Issued };

export function ApiKeys({ owner }: { readonly owner: KeyOwner }): VNode {
  const { data, problem, reload } = useList<ApiKey>(owner.list);
  const [doing, setDoing] = useState<Doing>();
  const close = (): void => setDoing(undefined);
  const show = (issued: Issued): void => {
    setDoing({ what: 'show', issued });
    reload();
  };
  const rotate = async ({ id }: ApiKey): Promise<void> =>
    show((await call<Issued>('POST', `${owner.list}/${id}/rotate`)).body);
  const revoke = async (key: ApiKey): Promise<void> => {
    await call('DELETE', `${owner.list}/${key.id}`);
    // A secret that is shown meanwhile stays: nothing shows it again.
    setDoing((now) => (now?.what === 'revoke' && now.key === key ? undefined : now));
    reload();
  };
  return (
    <section class="kind" aria-label="API keys">
      <div class="heading">
        <h2>API keys</h2>
        {data && <span class="fine number">{data.length}</span>}
        <span class="grow"></span>
        <Button class="small" says="New key…" onClick={() => setDoing({ what: 'make' })} />
      </div>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="API keys"
        look="lines"
        items={data}
        empty="None. Programs and pipelines call Strata with one."
        columns={[
          [
            'Name',
            (key) => (
              <>
                <bdi>{key.name}</bdi>
                <div class="fine">
                  <code title={key.prefix}>{shortPrefix(key)}</code>
                </div>
              </>
            ),
          ],
          ['May', (key) => <Allowed {...key} />],
          [{ wide: 'Created' }, ({ created_at: at }) => <Time at={at} />],
          ['Last used', ({ last_used_at: at }) => <Time at={at} none="never" />],
          [
            'Expires',
            (key) => (hasExpired(key) ? <State state="expired" /> : <Time at={key.expires_at} />),
          ],
          [
            { unseen: 'Actions' },
            (key) => (
              <>
                {owner.isPerson && (
                  <RowButton
                    says="New secret…"
                    of={`for ${key.name}`}
                    onClick={() => setDoing({ what: 'rotate', key })}
                  />
                )}
                <RowButton
                  says="Revoke…"
                  of={key.name}
                  onClick={() => setDoing({ what: 'revoke', key })}
                />
              </>
            ),
          ],
        ]}
      />
      {doing?.what === 'make' && <Make owner={owner} onClose={close} onIssued={show} />}
      {doing?.what === 'rotate' && (
        <FormDialog
          title={`New secret for ${doing.key.name}`}
          verb="Make a new secret"
          work={() => rotate(doing.key)}
          onClose={close}
        >
          <p>
            The secret of now ends immediately: whatever calls with{' '}
            <code>{shortPrefix(doing.key)}</code> is refused until it has the new one.
          </p>
        </FormDialog>
      )}
      {doing?.what === 'revoke' && (
        <FormDialog
          title={`Revoke ${doing.key.name}`}
          verb="Revoke"
          isDangerous
          work={() => revoke(doing.key)}
          onClose={close}
        >
          <p>
            Whatever calls with <code>{shortPrefix(doing.key)}</code> is refused from then on, on
            every node. This cannot be undone.
          </p>
        </FormDialog>
      )}
      {doing?.what === 'show' && (
        <ShownOnce
          title={`API key ${doing.issued.name}`}
          secret={doing.issued.api_key}
          onClose={close}
        />
      )}
    </section>
  );
}

/** Enough to tell keys apart. */
const shortPrefix = ({ prefix }: ApiKey): string => `${prefix.slice(0, 15)}…`;
const hasExpired = ({ expires_at: at }: ApiKey): boolean => Date.parse(at) <= Date.now();

const scopesFor = ({ isPerson, isPlatformAdmin = false }: KeyOwner) => [
  ...tenantScopes,
  ...(isPerson ? personalScopes : []),
  ...(isPlatformAdmin ? platformScopes : []),
];

function Make({
  owner,
  onClose,
  onIssued,
}: {
  readonly owner: KeyOwner;
  readonly onClose: () => void;
  readonly onIssued: (issued: Issued) => void;
}): VNode {
  const { typed, field } = useFields({ name: '', days: '90' });
  const [scopes, setScopes] = useState<readonly string[]>(['config:read']);
  const [narrowing, setNarrowing] = useState(notNarrowed);
  const work = async (): Promise<void> => {
    const asked = { name: typed.name.trim(), scopes, expires_in_days: Number(typed.days) };
    const body = { ...asked, ...narrowingIn(narrowing) };
    const { body: issued } = await call<Issued>('POST', owner.create, { body });
    onIssued(issued);
  };
  return (
    <FormDialog title="New API key" verb="Create key" work={work} onClose={onClose}>
      <Field
        label="Name"
        required
        maxlength={100}
        placeholder="such as deploy-pipeline"
        {...field('name')}
      />
      <Field
        label="Days until it expires"
        type="number"
        required
        min="1"
        max="365"
        class="number"
        {...field('days')}
        hint="1 to 365."
      />
      <Choices
        label="What it may do"
        options={scopesFor(owner)}
        chosen={scopes}
        onChange={setScopes}
      />
      <NarrowingFields texts={narrowing} onTexts={setNarrowing} />
      <p class="fine">
        Within the roles that its owner has when it is used.{' '}
        {owner.isPerson ? 'It ends with your membership.' : 'It continues when you have left.'}
      </p>
    </FormDialog>
  );
}

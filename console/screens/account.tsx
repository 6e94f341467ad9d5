/**
 * One's own account: how one signs in, where one is signed in, one's API keys, and what happened to
 * the account.
 */
import type { ComponentType, VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf } from '../address.ts';
import { useAction } from '../action.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { useList } from '../loading.ts';
import { Field, Form, NewPassword, useFields } from '../fields.tsx';
import { RowButton, Table, Waiting, Notice } from '../lists.tsx';
import { Button, Time } from '../inline.tsx';
import { Empty, Heading, ProblemBox, Section } from '../parts.tsx';
import { canUsePasskeys, registerPasskey } from '../passkeys.ts';
import { isPlatformAdmin, tenant, user } from '../session.ts';
import { Activity } from './activity.tsx';
import { ApiKeys } from './api-keys.tsx';
import { Invitations } from './invitations.tsx';
import { Sessions } from './sessions.tsx';

type Passkey = ResultOf<'auth.webauthn.credentials.list'>['items'][number];

interface Part {
  /** In the address; empty for the first. */
  readonly name: string;
  readonly title: string;
  readonly component: ComponentType<object>;
}
const parts: readonly Part[] = [
  { name: '', title: 'Signing in', component: SigningIn },
  { name: 'sessions', title: 'Sessions', component: Sessions },
  { name: 'keys', title: 'API keys', component: OwnKeys },
  { name: 'activity', title: 'Activity', component: Activity },
];

export function Account({ rest }: { readonly rest: readonly string[] }): VNode {
  const [name = ''] = rest;
  const part = parts.find((each) => each.name === name);
  return (
    <section>
      <Heading title="Your account">
        <span class="fine">
          <bdi>{user.value?.email}</bdi>
        </span>
      </Heading>
      <nav class="parts" aria-label="Parts of your account">
        {parts.map((each) => (
          <a
            key={each.name}
            href={hrefOf(`/account${each.name === '' ? '' : `/${each.name}`}`)}
            aria-current={each === part ? 'page' : undefined}
          >
            {each.title}
          </a>
        ))}
      </nav>
      {part ? <part.component key={part.name} /> : <Empty>There is no such part.</Empty>}
    </section>
  );
}

function SigningIn(): VNode {
  return (
    <div>
      <Invitations />
      <Passkeys />
      <ChangePassword />
    </div>
  );
}

function OwnKeys(): VNode {
  const where = tenant.value?.name;
  return (
    <div>
      <p class="fine">
        {where === undefined ? (
          'Keys that you make now act for no tenant.'
        ) : (
          <span>
            Keys that you make now act in <bdi>{where}</bdi>.
          </span>
        )}{' '}
        What a program should do for years belongs to a service account, since your keys end with
        your membership.
      </p>
      <ApiKeys
        owner={{
          list: '/auth/api-keys',
          create: '/auth/api-key',
          isPerson: true,
          isPlatformAdmin: isPlatformAdmin.value,
        }}
      />
    </div>
  );
}

const passkeysAddress = '/auth/webauthn/credentials';

function Passkeys(): VNode {
  const { data, problem, reload } = useList<Passkey>(passkeysAddress);
  const [doing, setDoing] = useState<'add' | Passkey>();
  const close = (): void => setDoing(undefined);
  const done = (): void => {
    close();
    reload();
  };
  const remove = async ({ id }: Passkey): Promise<void> => {
    await call('DELETE', `${passkeysAddress}/${id}`);
    done();
  };
  return (
    <section class="kind" aria-label="Passkeys">
      <div class="heading">
        <h2>Passkeys</h2>
        {data && <span class="fine number">{data.length}</span>}
        <span class="grow"></span>
        {canUsePasskeys && (
          <Button class="small" says="Add a passkey…" onClick={() => setDoing('add')} />
        )}
      </div>
      {!canUsePasskeys && (
        <p class="fine">
          Browsers keep no passkeys for the address {location.hostname}: open the console by its
          host name to add one.
        </p>
      )}
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Passkeys"
        look="lines"
        items={data}
        empty="None. With one, this device signs you in, and no password can be stolen."
        columns={[
          ['Name', (passkey) => <bdi>{nameOfPasskey(passkey)}</bdi>],
          ['Kept', (passkey) => (passkey.backed_up ? 'on several devices' : 'on one device')],
          [{ wide: 'Added' }, (passkey) => <Time at={passkey.created_at} />],
          ['Last used', (passkey) => <Time at={passkey.last_used_at} none="never" />],
          [
            { unseen: 'Actions' },
            (passkey) => (
              <RowButton
                says="Remove…"
                of={nameOfPasskey(passkey)}
                onClick={() => setDoing(passkey)}
              />
            ),
          ],
        ]}
      />
      {doing === 'add' && <AddPasskey onClose={close} onDone={done} />}
      {doing !== undefined && doing !== 'add' && (
        <FormDialog
          title={`Remove ${nameOfPasskey(doing)}`}
          verb="Remove"
          isDangerous
          work={() => remove(doing)}
          onClose={close}
        >
          <p>It signs you in no more. Remove it from the device, too: Strata cannot do that.</p>
        </FormDialog>
      )}
    </section>
  );
}

const nameOfPasskey = ({ name }: Passkey): string => name ?? 'A passkey';

function AddPasskey({
  onClose,
  onDone,
}: {
  readonly onClose: () => void;
  readonly onDone: () => void;
}): VNode {
  const { typed, field } = useFields({ name: '' });
  const work = async (): Promise<void> => {
    await registerPasskey(typed.name.trim());
    onDone();
  };
  return (
    <FormDialog title="Add a passkey" verb="Add it" work={work} onClose={onClose}>
      <Field
        label="What you call it"
        maxlength={100}
        placeholder="such as Laptop"
        {...field('name')}
      />
      <p class="fine">The browser asks next. A mail says that one was added.</p>
    </FormDialog>
  );
}

const noPasswords = { current_password: '', new_password: '' };

function ChangePassword(): VNode {
  const { typed, put, field } = useFields(noPasswords);
  const [endsKeys, setEndsKeys] = useState(false);
  const [isDone, setDone] = useState(false);
  const { isBusy, problem, run } = useAction();
  const submit = (): void => {
    setDone(false);
    void run(async () => {
      const body = { ...typed, end_api_keys: endsKeys };
      await call('POST', '/auth/password/change', { body });
      put(noPasswords);
      setDone(true);
    });
  };
  return (
    <Section class="kind" title="Password">
      <Form class="column" onSend={submit}>
        <input
          type="email"
          name="username"
          autocomplete="username"
          value={user.value?.email}
          readonly
          hidden
        />
        <Field
          label="Current password"
          type="password"
          autocomplete="current-password"
          required
          {...field('current_password')}
        />
        <NewPassword
          label="New password"
          {...field('new_password')}
          hint="12 characters at least, and not a common one."
        />
        <label class="check">
          <input type="checkbox" checked={endsKeys} onChange={() => setEndsKeys(!endsKeys)} />
          End my API keys too, in all tenants
        </label>
        <ProblemBox problem={problem} />
        {isDone && <Notice says="The password is changed, and your other sessions have ended." />}
        <p class="buttons">
          <Button type="submit" says="Change the password" isBusy={isBusy} />
        </p>
      </Form>
    </Section>
  );
}

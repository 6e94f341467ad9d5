/**
 * Whose tokens stand for a service account: the rules by which pipelines and clusters prove
 * themselves instead of keeping a key.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { call } from '../api.ts';
import { Choices, FormDialog } from '../dialogs.tsx';
import { Field, useFields } from '../fields.tsx';
import { useGet } from '../loading.ts';
import { RowButton, Table, Waiting } from '../lists.tsx';
import { Below, Button, Code, Who } from '../inline.tsx';
import { roleChoices, roleText } from '../roles.ts';
import { serviceScopes } from './api-keys.tsx';
import { Allowed, narrowingIn, NarrowingFields, notNarrowed } from './narrowing.tsx';

type Trust = ResultOf<'auth.trust.get'>;
type Rule = Trust['rules'][number];

interface TrustProperties {
  /** Of the account. */
  readonly address: string;
  readonly roles: readonly string[];
}

type Doing = 'add' | Rule;

/** As rules are written: what Strata adds to them is left out. */
const written = ({ id: _id, made_by: _by, created_at: _at, ...rule }: Rule) => rule;

export function TrustRules({ address, roles }: TrustProperties): VNode {
  const path = `${address}/trust`;
  const { data, problem, reload } = useGet<Trust>(path);
  const [doing, setDoing] = useState<Doing>();
  const close = (): void => setDoing(undefined);
  /** Refused where somebody else has written since. */
  const put = async (rules: readonly object[]): Promise<void> => {
    await call('PUT', path, { body: { rules, revision: data!.revision } });
    close();
    reload();
  };
  const add = (rule: object): Promise<void> => put([...data!.rules.map(written), rule]);
  const remove = (id: string): Promise<void> =>
    put(data!.rules.filter((each) => each.id !== id).map(written));
  return (
    <section class="kind" aria-label="Trust">
      <div class="heading">
        <h2>Trust</h2>
        {data && <span class="fine number">{data.rules.length}</span>}
        <span class="grow"></span>
        <Button
          class="small"
          says="New rule…"
          disabled={data === undefined}
          onClick={() => setDoing('add')}
        />
      </div>
      <Waiting data={data} problem={problem} retry={reload} />
      <Table
        label="Trust"
        look="lines"
        items={data?.rules}
        empty="None. By a rule a pipeline or cluster acts as this account with the token of its platform, and keeps no key."
        columns={[
          ['Whose token', tokenOf],
          ['Roles', (rule) => roleText(rule.roles)],
          ['May', (rule) => <Allowed {...rule} />],
          [{ number: 'For' }, ({ max_ttl: seconds }) => `${seconds} s`],
          [{ wide: 'Created by' }, ({ made_by: by }) => <Who id={by} />],
          [
            { unseen: 'Actions' },
            (rule) => (
              <RowButton
                says="Remove…"
                of={rule.subject ?? rule.issuer}
                onClick={() => setDoing(rule)}
              />
            ),
          ],
        ]}
      />
      {doing === 'add' && <Add roles={roles} onClose={close} onAdd={add} />}
      {typeof doing === 'object' && (
        <FormDialog
          title="Remove the rule"
          verb="Remove"
          isDangerous
          work={() => remove(doing.id)}
          onClose={close}
        >
          <p>
            Tokens that were given by it end immediately, on every node:{' '}
            <bdi>{doing.subject ?? doing.issuer}</bdi>
          </p>
        </FormDialog>
      )}
    </section>
  );
}

const tokenOf = ({ subject, issuer, claims = {} }: Rule): VNode => (
  <>
    <bdi>{subject ?? 'any subject'}</bdi>
    <Below>{issuer}</Below>
    {Object.entries(claims).map(([name, value]) => (
      <div class="fine" key={name}>
        <Code>{`${name}=${value}`}</Code>
      </div>
    ))}
  </>
);

/** `name=value`, one a line or with commas between them. */
function claimsIn(text: string): Readonly<Record<string, string>> {
  const parts = text.split(',').filter((each) => each.trim() !== '');
  return Object.fromEntries(
    parts.map((each) => {
      const [name = '', ...value] = each.split('=');
      return [name.trim(), value.join('=').trim()];
    }),
  );
}

function Add({
  roles,
  onClose,
  onAdd,
}: {
  readonly roles: readonly string[];
  readonly onClose: () => void;
  readonly onAdd: (rule: object) => Promise<void>;
}): VNode {
  const { typed, field } = useFields({ issuer: '', subject: '', claims: '', seconds: '900' });
  const [given, setGiven] = useState<readonly string[]>(roles);
  const [scopes, setScopes] = useState<readonly string[]>(['config:read']);
  const [narrowing, setNarrowing] = useState(notNarrowed);
  const work = (): Promise<void> => {
    const wanted = claimsIn(typed.claims);
    const subject = typed.subject.trim();
    return onAdd({
      issuer: typed.issuer.trim(),
      ...(subject !== '' && { subject }),
      ...(Object.keys(wanted).length > 0 && { claims: wanted }),
      roles: given,
      scopes,
      max_ttl: Number(typed.seconds),
      ...narrowingIn(narrowing),
    });
  };
  return (
    <FormDialog title="New rule of trust" verb="Trust it" work={work} onClose={onClose}>
      <Field
        label="Issuer"
        required
        maxlength={500}
        spellcheck={false}
        placeholder="https://token.actions.githubusercontent.com"
        {...field('issuer')}
        hint="To the character. The platform lists those that may be named."
      />
      <Field
        label="Subject"
        maxlength={500}
        spellcheck={false}
        placeholder="repo:acme/shop:ref:refs/heads/main"
        {...field('subject')}
        hint="* at the end, after a separator, stands for any rest."
      />
      <Field
        label="Claims"
        spellcheck={false}
        placeholder="repository_owner_id=12345678"
        {...field('claims')}
        hint="name=value, with commas between them; all must fit. GitHub needs repository_id or repository_owner_id."
      />
      <Field
        label="Seconds a token is good for"
        type="number"
        required
        min="60"
        max="900"
        class="number"
        {...field('seconds')}
      />
      <Choices
        label="Roles"
        options={roleChoices.filter(({ name }) => roles.includes(name))}
        chosen={given}
        onChange={setGiven}
      />
      <Choices
        label="What it may do"
        options={serviceScopes}
        chosen={scopes}
        onChange={setScopes}
      />
      <NarrowingFields texts={narrowing} onTexts={setNarrowing} />
    </FormDialog>
  );
}

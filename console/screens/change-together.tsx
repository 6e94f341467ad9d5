/** One field of several documents, changed by one change set. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import { go, tenantShown } from '../address.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field, ReasonField, Select } from '../fields.tsx';
import { useLoaded } from '../loading.ts';
import { Loading } from '../parts.tsx';
import { schemaOf, type Schema } from '../schemas.ts';
import { screenOfSet, ownerOf, type ChangeSet } from './change-sets.ts';
import { addressOf, type DocumentKind } from './document-kinds.ts';
import { LeafField } from './schema-fields.tsx';

type Body = ParamsOf<'tenant-config.changesets.create'>['body'];

/** Those that one value says; what has parts of its own is edited document by document. */
const fieldsOf = (schema: Schema, { idField }: DocumentKind): [string, Schema][] =>
  Object.entries(schema.properties ?? {}).filter(
    ([name, inner]) => name !== idField && !inner.properties && !inner.shapes,
  );

export function ChangeTogether({
  kind,
  ids,
  onClose,
}: {
  readonly kind: DocumentKind;
  readonly ids: readonly string[];
  readonly onClose: () => void;
}): VNode {
  const { data: schema } = useLoaded(kind.path, () => schemaOf(kind.path));
  const [field, setField] = useState('');
  const [member, setMember] = useState('');
  const [value, setValue] = useState<unknown>();
  const [isFit, setFit] = useState(true);
  const [reason, setReason] = useState('');
  const fields = schema ? fieldsOf(schema, kind) : [];
  const chosen = fields.find(([name]) => name === field)?.[1];
  // A label is set beside the others.
  const isMember = chosen?.values !== undefined;
  const name = isMember ? `${field}.${member.trim()}` : field;
  const choose = (chosenField: string): void => {
    setField(chosenField);
    setMember('');
    setValue(undefined);
    setFit(true);
  };
  const propose = async (): Promise<void> => {
    const owner = ownerOf(tenantShown.value);
    const own = value ?? null;
    const body = { [field]: isMember ? { [member.trim()]: own } : own };
    const items = ids.map((id) => ({
      action: 'patch' as const,
      path: addressOf(kind.path, id),
      body,
    }));
    const title = `${own === null ? 'Take away' : 'Set'} ${name} of ${ids.length} ${kind.name}`;
    const sent: Body = { title, reason: reason.trim(), apply: 'on_approval', items };
    const made = await call<ChangeSet>('POST', owner.address, { body: sent });
    go(screenOfSet(owner, made.body.id));
  };
  return (
    <FormDialog
      title={`Change ${ids.length} ${kind.name} together`}
      verb="Make a change set"
      isReady={chosen !== undefined && isFit && (!isMember || member.trim() !== '')}
      work={propose}
      onClose={onClose}
    >
      <p class="fine">
        <bdi>{ids.slice(0, 8).join(', ')}</bdi>
        {ids.length > 8 && ` and ${ids.length - 8} more`}
      </p>
      {!schema && <Loading />}
      <Select
        label="Field"
        name="field"
        value={field}
        required
        options={[{ value: '', title: 'choose one' }, ...fields.map(([each]) => ({ value: each }))]}
        onValue={choose}
      />
      {isMember && (
        <Field
          label="Name"
          name="member"
          value={member}
          required
          placeholder="tier"
          onValue={setMember}
        />
      )}
      {chosen && (
        <LeafField
          key={field}
          name="Value"
          place="value"
          schema={chosen.values ?? chosen}
          value={value}
          isReadOnly={false}
          onChange={setValue}
          onFit={setFit}
        />
      )}
      <p class="fine">Left empty, it is taken away from each, and lower layers show through.</p>
      <ReasonField value={reason} onValue={setReason} />
      <p class="fine">Nothing is written until somebody else has approved the change set.</p>
    </FormDialog>
  );
}

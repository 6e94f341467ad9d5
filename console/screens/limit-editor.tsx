/**
 * The form of one budget or freeze: a member of a document whose members have names. It is tried and
 * published by the review, and leaves the others as they are.
 */
import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { FormDialog } from '../dialogs.tsx';
import { Field } from '../fields.tsx';
import { Waiting } from '../lists.tsx';
import { useLoaded } from '../loading.ts';
import { isObject, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { patchBetween } from '../merge-patch.ts';
import { schemaOf, type Schema } from '../schemas.ts';
import type { DocumentKind } from './document-kinds.ts';
import { ReviewAndPublish } from './review.tsx';
import { SchemaFields, withFit } from './schema-form.tsx';
import type { Stored } from './stored.ts';

export interface LimitDocument {
  readonly kind: DocumentKind;
  /** Of the document. */
  readonly address: string;
  readonly stored: Stored;
}

interface MemberChange extends LimitDocument {
  readonly title: string;
  /** Of the member, and null to remove it. */
  readonly name: string;
  readonly patch: JsonObject | null;
  readonly about?: ComponentChildren;
  readonly reason?: string;
  readonly verb?: string;
  readonly onClose: () => void;
  readonly onPublished: () => void;
}

/** The review of a change of one member. */
export const ReviewMember = ({
  kind,
  address,
  stored,
  name,
  patch,
  verb = 'Publish',
  ...rest
}: MemberChange): VNode => (
  <ReviewAndPublish
    {...rest}
    address={address}
    method="PATCH"
    body={{ [name]: patch }}
    revision={stored.revision}
    isNew={stored.document === null}
    hasImpact={kind.hasImpact ?? false}
    isPlannable={kind.isPlatform ?? false}
    verb={verb}
  />
);

/** As the API demands of names. */
export const namePattern = '[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}';

export const memberOf = ({ document }: Stored, name: string): JsonObject | undefined => {
  const member = document && Object.hasOwn(document, name) ? document[name] : undefined;
  return isObject(member) ? member : undefined;
};

/** Fields that somebody else draws, such as the windows of a freeze. */
export type OwnFields = (
  draft: JsonObject,
  onChange: (draft: JsonObject) => void,
  onFit: (place: string, isFit: boolean) => void,
) => VNode;

interface LimitEditorProperties extends LimitDocument {
  /** Absent for a new one. */
  readonly name?: string | undefined;
  /** What a new one begins with. */
  readonly first: JsonObject;
  readonly own?: OwnFields;
  /** Drawn by `own`, or elsewhere. */
  readonly without?: readonly string[];
  readonly onClose: () => void;
  readonly onPublished: () => void;
}

function fieldsOf({ values }: Schema, without: readonly string[]): Schema {
  const properties = Object.entries(values?.properties ?? {}).filter(
    ([name]) => !without.includes(name),
  );
  return { properties: Object.fromEntries(properties) };
}

export function LimitEditor(properties: LimitEditorProperties): VNode {
  const { kind, stored, name: known, first, own, without = [], onClose } = properties;
  // What others change while the form is open is not in the draft, and stays as it is.
  const [before] = useState(known === undefined ? undefined : memberOf(stored, known));
  const schema = useLoaded(kind.path, () => schemaOf(kind.path));
  const [name, setName] = useState(known ?? '');
  const [draft, setDraft] = useState<JsonObject>(before ?? first);
  const [unfit, setUnfit] = useState<ReadonlySet<string>>(new Set());
  const [isReviewing, setReviewing] = useState(false);
  const noun = kind.noun ?? 'member';
  const isTaken = known === undefined && memberOf(stored, name) !== undefined;
  const patch = before ? patchBetween(before, draft) : draft;
  const note = (place: string, isFit: boolean): void =>
    setUnfit((places) => withFit(places, place, isFit));
  const title = known === undefined ? `New ${noun}` : `The ${noun} ${known}`;
  return (
    <>
      <FormDialog
        title={title}
        verb="Review…"
        isReady={unfit.size === 0 && !isTaken && patch !== undefined}
        work={async () => setReviewing(true)}
        onClose={onClose}
      >
        {known === undefined && (
          <Field
            label="Name"
            name="name"
            value={name}
            required
            pattern={namePattern}
            spellcheck={false}
            hint={isTaken ? `There is a ${noun} of this name.` : 'Letters, digits, . _ and -'}
            onValue={setName}
          />
        )}
        {own?.(draft, setDraft, note)}
        <Waiting data={schema.data} problem={schema.problem} retry={schema.reload} />
        {schema.data && (
          <SchemaFields
            schema={fieldsOf(schema.data, without)}
            document={draft}
            above={[]}
            isReadOnly={false}
            onChange={setDraft}
            onFit={note}
          />
        )}
      </FormDialog>
      {isReviewing && (
        <ReviewMember
          kind={kind}
          address={properties.address}
          stored={stored}
          title={`Publish the ${noun} ${name}`}
          name={name}
          patch={patch ?? {}}
          onClose={() => setReviewing(false)}
          onPublished={properties.onPublished}
        />
      )}
    </>
  );
}

/**
 * One document: a form made from its schema, or raw JSON. What was edited is kept as a patch: it is
 * reviewed before anything is written, and laid over what somebody else has written meanwhile.
 */
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { go, guardLeaving, hrefOf, query, setQuery } from '../address.ts';
import { longJson } from '../format.ts';
import { changes } from '../live.ts';
import { useLive, useLoaded } from '../loading.ts';
import { isObject, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { applyMergePatch } from '../../shared/schema/merge-patch.ts';
import { conflictsOf, patchBetween, placesIn } from '../merge-patch.ts';
import { Button, Time, Who } from '../inline.tsx';
import { Notice, Waiting } from '../lists.tsx';
import { Heading } from '../parts.tsx';
import { schemaOf, type Schema } from '../schemas.ts';
import {
  addressOf,
  linksOf,
  mayDelete,
  mayWrite,
  screenAbove,
  titleOf,
  type DocumentKind,
} from './document-kinds.ts';
import { emptiedBy, Inherited } from './inherited.tsx';
import { Managed, ManagedNote, readManaged } from './managed.tsx';
import { ReviewAndPublish } from './review.tsx';
import { JsonField } from './schema-fields.tsx';
import { MemberFields, SchemaFields, withFit } from './schema-form.tsx';
import { readStored, type Stored } from './stored.ts';
import { useSuggestions } from './suggestions.ts';
import { Form } from '../fields.tsx';

/** The address says a document's name; a form that asked for it again could only contradict it. */
function withoutFields(
  schema: Schema,
  { idField = '', idFields = [idField] }: DocumentKind,
): Schema {
  if (!schema.properties) return schema;
  const properties = Object.entries(schema.properties).filter(([name]) => !idFields.includes(name));
  return { ...schema, properties: Object.fromEntries(properties) };
}

/**
 * What a PUT takes of what a GET answers: an entry of the platform says its revision and author in
 * the body, too.
 */
function writable(stored: Stored, { properties }: Schema, { isPlatform }: DocumentKind): Stored {
  const { document } = stored;
  if (!isPlatform || !properties || document === null) return stored;
  const fields = Object.entries(document).filter(([name]) => Object.hasOwn(properties, name));
  return { ...stored, document: Object.fromEntries(fields) };
}

export function DocumentEditor({
  kind,
  id,
}: {
  readonly kind: DocumentKind;
  readonly id: string;
}): VNode {
  const address = addressOf(kind.path, id);
  const { data, problem, reload } = useLoaded(address, async (aborted) => {
    const receivedBefore = changes.count.peek();
    const [stored, whole, managed] = await Promise.all([
      readStored(address, aborted),
      schemaOf(kind.path),
      readManaged(address, aborted),
    ]);
    const schema = withoutFields(whole, kind);
    return { stored: writable(stored, schema, kind), schema, managed, receivedBefore };
  });
  const title = titleOf(kind, id);
  return (
    <section>
      <Heading title={title} about={kind.about}>
        <span class="grow"></span>
        {linksOf(kind, id).map(([name, href]) => (
          <a key={name} href={hrefOf(href)}>
            {name}
          </a>
        ))}
      </Heading>
      <Waiting data={data} problem={problem} retry={reload} />
      {data && (
        <Managed.Provider value={data.managed}>
          <ManagedNote fields={data.managed} />
          <Editor
            address={address}
            kind={kind}
            id={id}
            title={title}
            first={data.stored}
            receivedBefore={data.receivedBefore}
            schema={data.schema}
          />
        </Managed.Provider>
      )}
    </section>
  );
}

/** A plan has no policies in it. */
const isPlannable = ({ isPlatform = false, hasImpact = false }: DocumentKind): boolean =>
  isPlatform && hasImpact;

interface EditorProperties {
  readonly address: string;
  readonly kind: DocumentKind;
  readonly id: string;
  readonly title: string;
  readonly first: Stored;
  /** How many changes this tab had observed when `first` was asked for. */
  readonly receivedBefore: number;
  readonly schema: Schema;
}

/** What somebody else has written under the editor's feet. */
interface Rebase {
  readonly theirs: Stored;
  readonly conflicts: readonly string[];
}

/** What is edited, what was written meanwhile, and what is being reviewed. */
function useEditing({ address, kind, id, first, receivedBefore, schema }: EditorProperties) {
  const [base, setBase] = useState(first);
  const [draft, setDraft] = useState<JsonObject>(first.document ?? {});
  /** Fields with a text that is no value yet, by their place. */
  const [unfit, setUnfit] = useState<ReadonlySet<string>>(new Set());
  const [reviewing, setReviewing] = useState<'publish' | 'delete'>();
  const [rebase, setRebase] = useState<Rebase>();
  const [published, setPublished] = useState<number>();
  /** Changes with every reset, so that fields forget the texts that were typed into them. */
  const [round, setRound] = useState(0);
  const patch = patchBetween(base.document ?? {}, draft);
  const isNew = base.document === null;
  const isWritable = mayWrite(kind);
  const read = async (): Promise<Stored> => writable(await readStored(address), schema, kind);
  const isEdited = patch !== undefined || unfit.size > 0;

  useEffect(() => {
    const leave = (): boolean => confirm('Leave without publishing what you edited?');
    guardLeaving(isEdited ? leave : undefined);
    return () => guardLeaving(undefined);
  }, [isEdited]);

  // An untouched form shows what is there now; one in use stays as it is, and says that there is
  // something newer.
  const [newer, setNewer] = useState<Stored>();
  // Somebody may edit while it is read.
  const now = useRef({ base, draft, unfit, isInUse: false });
  now.current = { base, draft, unfit, isInUse: isEdited || reviewing !== undefined };
  const look = async (): Promise<void> => {
    const { base: before } = now.current;
    const stored = await read();
    // Published here meanwhile: what was read may be from before that.
    if (now.current.base !== before) return look();
    if (stored.revision === before.revision) return undefined;
    if (now.current.isInUse) setNewer(stored);
    else begin(stored);
    return undefined;
  };
  useLive(
    () => void look().catch(() => undefined),
    ({ config_type: type, resource_id: changed }) =>
      type === kind.configType && (kind.plural === undefined || changed === id),
    receivedBefore,
  );

  const begin = (stored: Stored): void => {
    setBase(stored);
    setDraft(stored.document ?? {});
    setUnfit(new Set());
    setRebase(undefined);
    setNewer(undefined);
    setRound((before) => before + 1);
  };
  const note = (place: string, isFit: boolean): void =>
    setUnfit((places) => withFit(places, place, isFit));
  const afterPublishing = async (): Promise<void> => {
    // The dialog is over the form until then, so that nobody types what would be replaced.
    const stored = await read().catch(() => undefined);
    setReviewing(undefined);
    if (!stored) return;
    begin(stored);
    setPublished(stored.revision);
  };
  /**
   * Lays what was edited here over what is there now; where both changed a field, the review shows
   * theirs as "before".
   */
  const layOver = async (): Promise<void> => {
    const theirs = await read();
    const { base: before, draft: edited, unfit: texts } = now.current;
    // The form is drawn again, and a text that is no value yet would be gone.
    if (texts.size > 0) return;
    const patchNow = patchBetween(before.document ?? {}, edited) ?? {};
    const theirPatch = patchBetween(before.document ?? {}, theirs.document ?? {}) ?? {};
    const conflicts = conflictsOf(placesIn(patchNow), placesIn(theirPatch));
    setReviewing(undefined);
    setNewer(undefined);
    setBase(theirs);
    setDraft(applyMergePatch(theirs.document, patchNow));
    setRebase({ theirs, conflicts });
    setRound((before) => before + 1);
  };
  return {
    base,
    draft,
    setDraft,
    unfit,
    reviewing,
    setReviewing,
    rebase,
    published,
    round,
    patch,
    isNew,
    isWritable,
    isEdited,
    newer,
    begin,
    note,
    afterPublishing,
    layOver,
  };
}

type Editing = ReturnType<typeof useEditing>;

function Editor(properties: EditorProperties): VNode {
  const { kind, schema } = properties;
  const editing = useEditing(properties);
  const asJson = query.value.get('as') === 'json';
  const Fields = schema.values ? MemberFields : SchemaFields;
  const hasForm = schema.properties !== undefined || schema.values?.properties !== undefined;
  const suggestions = useSuggestions();
  return (
    <div class="editor" tabindex={-1}>
      <Notes editing={editing} />
      {hasForm && (
        <div class="modes" role="group" aria-label="Edit as">
          <Button
            class="small"
            says="Form"
            aria-pressed={!asJson}
            onClick={() => setQuery({ as: '' })}
          />
          <Button
            class="small"
            says="JSON"
            aria-pressed={asJson}
            onClick={() => setQuery({ as: 'json' })}
          />
        </div>
      )}
      <Form onSend={() => editing.setReviewing('publish')}>
        {asJson || !hasForm ? (
          <JsonField
            key={`json ${editing.round}`}
            label="Document"
            value={editing.draft}
            rows={Math.min(24, longJson(editing.draft).split('\n').length + 8)}
            isReadOnly={!editing.isWritable}
            onChange={(value: unknown) => isObject(value) && editing.setDraft(value)}
            onFit={(isFit: boolean) => editing.note('', isFit)}
            demands={isObject}
          />
        ) : (
          <Fields
            key={`form ${editing.round}`}
            noun={kind.noun ?? 'member'}
            named={kind.named ?? 'name'}
            schema={schema}
            document={editing.draft}
            above={[]}
            suggestions={suggestions}
            isReadOnly={!editing.isWritable}
            onChange={editing.setDraft}
            onFit={editing.note}
          />
        )}
        {editing.isWritable && (
          <footer class="actions">
            <Button
              type="submit"
              says={'Review & publish…'}
              disabled={editing.unfit.size > 0 || (editing.patch === undefined && !editing.isNew)}
            />
            <Button
              class="secondary"
              says="Discard edits"
              disabled={!editing.isEdited}
              onClick={() => editing.begin(editing.base)}
            />
            <span class="fine" role="status">
              {stateOf(editing.patch, editing.unfit.size)}
            </span>
            <span class="grow"></span>
            {mayDelete(kind) && !editing.isNew && (
              <Button
                class="danger"
                says="Delete…"
                onClick={() => editing.setReviewing('delete')}
              />
            )}
          </footer>
        )}
      </Form>
      <Reviews {...properties} editing={editing} />
    </div>
  );
}

/** Which revision is edited, and what somebody else has written meanwhile. */
function Notes({ editing }: { readonly editing: Editing }): VNode {
  const { base, isEdited, isNew, isWritable, layOver, newer, published, rebase, unfit } = editing;
  return (
    <>
      {isNew ? (
        <p class="notice">
          There is none yet
          {isWritable ? ': publishing makes it.' : '. Your role may read it, and not publish one.'}
        </p>
      ) : (
        <p class="fine">
          Revision <span class="number">{base.revision}</span> ·{' '}
          <Who id={base.updatedBy} name={base.updatedByName} /> · <Time at={base.updatedAt} />
        </p>
      )}
      {published !== undefined && !isEdited && (
        <Notice says={`Published as revision ${published}.`} />
      )}
      {newer && newer.revision !== base.revision && (
        <p class="banner" role="status">
          <strong>
            <Who id={newer.updatedBy} name={newer.updatedByName} /> changed this{' '}
            <Time at={newer.updatedAt} />.
          </strong>{' '}
          Your edits stay as they are, and are laid over that when you review them.{' '}
          <Button
            class="link"
            says="Lay them over it now"
            disabled={unfit.size > 0}
            onClick={() => void layOver()}
          />
        </p>
      )}
      {rebase && <Rebased {...rebase} />}
    </>
  );
}

/** The dialog over the form, of what is about to be published or deleted. */
function Reviews({
  address,
  kind,
  id,
  title,
  editing,
}: EditorProperties & { readonly editing: Editing }): VNode {
  const { base, draft, reviewing, setReviewing, patch, isNew, afterPublishing, layOver } = editing;
  const above = screenAbove(kind);
  return (
    <>
      {reviewing === 'publish' && (
        <ReviewAndPublish
          title={`Publish ${title}`}
          address={address}
          method={isNew ? 'PUT' : 'PATCH'}
          body={isNew ? draft : (patch ?? {})}
          revision={base.revision}
          isNew={isNew}
          hasImpact={kind.hasImpact ?? false}
          isPlannable={isPlannable(kind)}
          about={
            <Inherited
              address={address}
              patch={patch ?? {}}
              emptied={emptiedBy(kind.name, id, patch ?? {})}
            />
          }
          verb="Publish"
          onClose={() => setReviewing(undefined)}
          onPublished={() => void afterPublishing()}
          onOutdated={() => void layOver()}
        />
      )}
      {reviewing === 'delete' && (
        <ReviewAndPublish
          title={`Delete ${title}`}
          address={address}
          method="DELETE"
          revision={base.revision}
          hasImpact={kind.hasImpact ?? false}
          isPlannable={isPlannable(kind)}
          about={
            <p>
              What it says goes; the layers below show through again. The history keeps it, and can
              bring it back.
            </p>
          }
          verb="Delete"
          onClose={() => setReviewing(undefined)}
          onPublished={() => {
            guardLeaving(undefined);
            go(above);
          }}
        />
      )}
    </>
  );
}

function stateOf(patch: JsonObject | undefined, unfit: number): string {
  if (unfit > 0) return `${unfit === 1 ? 'A field has' : `${unfit} fields have`} no valid value.`;
  if (patch === undefined) return 'Nothing is edited.';
  const count = placesIn(patch).length;
  return `${count} ${count === 1 ? 'change' : 'changes'}, not published.`;
}

/** More of them than that are for the review to show. */
const mostConflicts = 20;

const Rebased = ({ theirs, conflicts }: Rebase): VNode => (
  <div class="banner" role="alert">
    <p>
      <strong>
        <Who id={theirs.updatedBy} name={theirs.updatedByName} /> changed this{' '}
        <Time at={theirs.updatedAt} />
      </strong>{' '}
      (revision {theirs.revision}). Your edits are laid over that, and nothing was overwritten.
      Review them again.
    </p>
    {conflicts.length > 0 && (
      <p>
        Both of you changed{' '}
        {conflicts.slice(0, mostConflicts).map((place) => (
          <code key={place}>{place}</code>
        ))}
        {conflicts.length > mostConflicts && `and ${conflicts.length - mostConflicts} more places`}:
        yours stands here, theirs is what the review shows as before.
      </p>
    )}
  </div>
);

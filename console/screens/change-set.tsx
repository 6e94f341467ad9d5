/**
 * One change set: what it changes and for whom, who has said what about it, and what can be done
 * with it now.
 */
import type { ComponentChildren, VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { hrefOf } from '../address.ts';
import { localTime } from '../format.ts';
import { Waiting } from '../lists.tsx';
import { lookAgainMs, useEvery, useLive, useGet } from '../loading.ts';
import { Code, FineTime, Link, Said, StateNow, Time } from '../inline.tsx';
import { Changes, Fact, Heading, Section } from '../parts.tsx';
import { whenTitles } from './apply-fields.tsx';
import { Actions } from './change-set-actions.tsx';
import { Emergency } from './emergency-badge.tsx';
import { isOpen, nameIn, titleOfSet, type ChangeSet, type Owner } from './change-sets.ts';
import { sentenceOf } from './change-sentence.ts';
import { documentAt, screenOf, titleOf } from './document-kinds.ts';
import { PastDecisionsOf } from './past-decisions.tsx';
import { EffectOfSet } from './set-effect.tsx';

export function OneChangeSet({ owner, id }: { readonly owner: Owner; readonly id: string }): VNode {
  const address = `${owner.address}/${encodeURIComponent(id)}`;
  const { data, problem, reload } = useGet<ChangeSet>(address);
  // Others edit and decide it while somebody looks, and its time comes.
  useLive(reload);
  useEvery(lookAgainMs, () => {
    if (!data || isOpen(data)) reload();
  });
  const { seen, look } = useSeen(data);
  return (
    <section class="change-set">
      <Heading title={data ? titleOfSet(data, owner) : 'Change set'}>
        <StateNow state={data?.state} />
        {data && <Emergency set={data} />}
      </Heading>
      <Waiting
        data={data}
        problem={problem}
        retry={reload}
        unknown="There is no change set with this id."
      />
      {data && (
        <>
          <ReasonAndNote set={data} />
          <Facts set={data} owner={owner} />
          <EmergencyOf set={data} />
          <Differences set={data} owner={owner} />
          {isOpen(data) && <EffectOfSet set={data} owner={owner} />}
          {isOpen(data) && <PastDecisionsOf address={address} digest={data.digest} />}
          <Actions
            set={data}
            owner={owner}
            address={address}
            isSeen={seen === undefined || seen === data.digest}
            onLook={look}
            onDone={reload}
          />
        </>
      )}
    </section>
  );
}

/** The digest that was looked at: what is edited under somebody's eyes is looked at again. */
function useSeen(set: ChangeSet | undefined) {
  const first = useRef<string | undefined>(undefined);
  const [, draw] = useState(0);
  first.current ??= set?.digest;
  return {
    seen: first.current,
    look: () => {
      first.current = set?.digest;
      draw((times) => times + 1);
    },
  };
}

const ReasonAndNote = ({ set }: { readonly set: ChangeSet }): VNode => (
  <>
    <p class="prose">
      <bdi>{set.reason}</bdi>
    </p>
    {set.note !== null && (
      <p class={set.state === 'rejected' ? 'problem' : 'notice'} role="status">
        <strong>{noteTitles[set.state] ?? 'Note'}:</strong> <bdi>{set.note}</bdi>
        {set.state === 'rejected' && set.ended_by !== null && (
          <>
            {' '}
            – <bdi>{nameIn(set, set.ended_by)}</bdi>
          </>
        )}
      </p>
    )}
  </>
);

const noteTitles: Readonly<Record<string, string>> = {
  stale: 'A document was written since',
  suspended: 'It could not be applied',
  rejected: 'Rejected',
  failed: 'It failed',
};

function Facts({ set, owner }: { readonly set: ChangeSet; readonly owner: Owner }): VNode {
  const { authors, required, groups, approved_by: approvals, revisions } = set;
  const missing = Math.max(0, required - approvals.length);
  return (
    <dl class="facts">
      <Fact name={authors.length > 1 ? 'Proposed and edited by' : 'Proposed by'}>
        {authors.map(({ id }) => (
          <div key={id}>
            <bdi>{nameIn(set, id)}</bdi>
          </div>
        ))}
        <span class="fine">
          <Time at={set.created_at} />
          {authors.length > 1 && (
            <>
              , changed <Time at={set.updated_at} />
            </>
          )}
        </span>
      </Fact>
      <Fact name="Approved so far">
        {approvals.length} of {required}
        {isOpen(set) && missing > 0 && <span class="muted">, {missing} more needed</span>}
        {approvals.map(({ id, at, comment }) => (
          <div key={id}>
            <bdi>{nameIn(set, id)}</bdi> <FineTime at={at} />
            <Said>{comment}</Said>
          </div>
        ))}
      </Fact>
      <Fact name="Who approves">
        {groups.length > 0 ? (
          <bdi>members of {groups.join(', ')}</bdi>
        ) : owner.tenantId === '' ? (
          'administrators of the platform'
        ) : (
          'operators, reviewers and tenant admins'
        )}
        , and no author
      </Fact>
      <Fact name={set.state === 'applied' ? 'Was to be applied' : 'It is applied'}>
        <Scheduled set={set} />
      </Fact>
      {set.until !== undefined && (
        <Fact name="Ends by itself">
          {localTime(set.until)} <FineTime at={set.until} />
        </Fact>
      )}
      {revisions && (
        <Fact name="Written as">
          {revisions.map((revision, index) => (
            <>
              {index > 0 && ', '}
              <a key={revision} href={hrefOf(`${owner.screens}/history?open=${revision}`)}>
                revision {revision}
              </a>
            </>
          ))}
        </Fact>
      )}
      <Fact name="Digest" says={<code title={set.digest}>{set.digest.slice(0, 12)}</code>} />
    </dl>
  );
}

function Scheduled({ set: { apply } }: { readonly set: ChangeSet }): VNode {
  if (typeof apply !== 'object') return <span>{whenTitles[apply]}</span>;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return (
    <span>
      <strong>{localTime(apply.at)}</strong> <span class="muted">{timeZone}</span>{' '}
      <FineTime at={apply.at} />
    </span>
  );
}

function EmergencyOf({ set }: { readonly set: ChangeSet }): VNode | null {
  const { break_glass: emergency } = set;
  if (!emergency) return null;
  const { by, at, reason, reviewed_by: reviewer } = emergency;
  return (
    <div class={reviewer === null ? 'problem' : 'notice'}>
      <p>
        <strong>Applied without approvals</strong> by <bdi>{nameIn(set, by)}</bdi>, <Time at={at} />
      </p>
      <Said>{reason}</Said>
      <p>
        {reviewer === null ? (
          'Somebody else has to look at it.'
        ) : (
          <>
            Reviewed by <bdi>{nameIn(set, reviewer)}</bdi>.
          </>
        )}
      </p>
    </div>
  );
}

type Change = ChangeSet['changes'][number];

/** More of them are for the table alone. */
const mostSentences = 5;

function Differences({ set, owner }: { readonly set: ChangeSet; readonly owner: Owner }): VNode {
  const { items, changes, moved = [] } = set;
  const item = (path: string, about: string, all: readonly Change[]): VNode => (
    <Item
      key={path}
      title={<DocumentName path={path} owner={owner} />}
      about={about}
      changes={all.filter(({ resource }) => resource === path)}
    />
  );
  return (
    <Section title="What changes">
      {items.map(({ action, path, base }) => {
        const based = action === 'delete' ? 'It is deleted; based' : 'Based';
        const about = base === null ? 'There is none yet.' : `${based} on revision ${base}.`;
        return item(path, about, changes);
      })}
      {moved.length > 0 && (
        <section aria-label="What others changed">
          <h2>What others had changed before it was rebased</h2>
          {[...new Set(moved.map(({ resource }) => resource))].map((path) => item(path, '', moved))}
        </section>
      )}
    </Section>
  );
}

const Item = ({
  title,
  about,
  changes,
}: {
  readonly title: ComponentChildren;
  readonly about: string;
  readonly changes: readonly Change[];
}): VNode => (
  <div class="item">
    <h3>{title}</h3>
    {changes.length <= mostSentences &&
      changes.map((change) => (
        <p key={change.path}>
          <bdi>{sentenceOf(change)}</bdi>
        </p>
      ))}
    <p class="fine">{about}</p>
    <Changes changes={changes} />
  </div>
);

function DocumentName({ path, owner }: { readonly path: string; readonly owner: Owner }): VNode {
  const found = documentAt(path, owner.kinds);
  if (!found) return <Code>{path}</Code>;
  return <Link to={screenOf(found.kind, found.id)}>{titleOf(found.kind, found.id)}</Link>;
}

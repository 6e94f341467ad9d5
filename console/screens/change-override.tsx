/**
 * Clearing an override: what is removed and what will hold instead, tried first, and written only
 * after a look at it.
 */
import type { VNode } from 'preact';
import { removalAt } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Dialog, ProblemBox, Value } from '../parts.tsx';
import { changesValue, EffectOf } from './effect.tsx';
import { titleOf, type Rung } from './ladder.ts';
import { ReviewAndPublish } from './review.tsx';
import { readStored } from './stored.ts';
import type { Context as Question, EffectiveChange } from './trial.ts';

/** Where the document of a layer is; undefined for those that a tenant does not write. */
function addressOf(tenantId: string, { layer }: Rung, question: Question): string | undefined {
  const named = (text: string | undefined): string => encodeURIComponent(text ?? '');
  switch (layer) {
    case 'service_instance':
      return `/tenants/${tenantId}/services/${named(question.service_id)}`;
    case 'agent':
      return `/tenants/${tenantId}/config/agents/${named(question.agent_type)}`;
    case 'tenant_risk':
      return `/tenants/${tenantId}/config/risk`;
    default:
      return undefined;
  }
}

export function ClearOverride({
  tenantId,
  name,
  rung,
  value,
  question,
  onClose,
  onCleared,
}: {
  readonly tenantId: string;
  readonly name: string;
  readonly rung: Rung;
  /** What holds now. */
  readonly value: unknown;
  readonly question: Question;
  readonly onClose: () => void;
  readonly onCleared: () => void;
}): VNode | null {
  const address = addressOf(tenantId, rung, question);
  const path = rung.path;
  const { data: stored, problem } = useLoaded(address ?? '', async (aborted) =>
    address === undefined ? undefined : readStored(address, aborted),
  );
  if (address === undefined || path === undefined) return null;
  const title = `Clear ${name}`;
  if (!stored)
    return (
      <Dialog title={title} onClose={onClose}>
        {problem ? (
          <ProblemBox problem={problem} />
        ) : (
          <p class="empty" role="status">
            Trying it…
          </p>
        )}
      </Dialog>
    );
  return (
    <ReviewAndPublish
      title={title}
      address={address}
      method="PATCH"
      body={removalAt(path)}
      revision={stored.revision}
      about={
        <p>
          {titleOf(rung)} will not say anything about{' '}
          <strong>
            <bdi>{name}</bdi>
          </strong>{' '}
          any more.
        </p>
      }
      effect={{
        context: {
          ...(question.agent_type && { agent_type: question.agent_type }),
          ...(question.service_id && { service_id: question.service_id }),
          ...(question.service_type && { service_type: question.service_type }),
        },
        show: (changes) => <Becomes name={name} value={value} changes={changes} />,
      }}
      verb="Clear the override"
      onClose={onClose}
      onPublished={onCleared}
    />
  );
}

/** What the trial said, for these names. */
function Becomes({
  name,
  value,
  changes,
}: {
  readonly name: string;
  readonly value: unknown;
  readonly changes: readonly EffectiveChange[];
}): VNode {
  const change = changes.find(({ key }) => key === name);
  const others = changes.filter((each) => each.key !== name && changesValue(each));
  return (
    <div class="becomes">
      <p>
        {change ? (
          <EffectOf change={change} />
        ) : (
          <span>
            It stays <Value value={value} />.
          </span>
        )}
      </p>
      {others.map((other) => (
        <p key={other.key}>
          <bdi>{other.key}</bdi>: <EffectOf change={other} />
        </p>
      ))}
    </div>
  );
}

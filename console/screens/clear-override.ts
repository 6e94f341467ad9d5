/**
 * Clearing an override: what is removed and what will hold instead, tried first, and written only
 * after a look at it.
 */
import type { VNode } from 'preact';
import { html, view } from '../html.ts';
import { Value } from '../parts.ts';
import { removalAt } from '../format.ts';
import { layers, layerTitles, type Rung } from './ladder.ts';
import { ReviewAndPublish } from './review.ts';

interface Question {
  readonly agent_type?: string;
  readonly service_id?: string;
}

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
  rungs,
  question,
  onClose,
  onCleared,
}: {
  readonly tenantId: string;
  readonly name: string;
  readonly rung: Rung;
  readonly rungs: readonly Rung[];
  readonly question: Question;
  readonly onClose: () => void;
  readonly onCleared: () => void;
}): VNode | null {
  const address = addressOf(tenantId, rung, question);
  if (address === undefined || rung.path === undefined) return null;
  const below = rungs.slice(layers.indexOf(rung.layer) + 1).find(({ state }) => state !== 'unset');
  return view(ReviewAndPublish, {
    title: `Clear ${name}`,
    address,
    method: 'PATCH',
    body: removalAt(rung.path),
    revision: rung.revision ?? undefined,
    about: html`<p>
      ${layerTitles[rung.layer]} will not say anything about <strong><bdi>${name}</bdi></strong> any more.${' '}
      ${
        below
          ? html`<span>Below it ${layerTitles[below.layer]} says <${Value} value=${below.value} />.</span>`
          : html`<span>No layer below it says anything.</span>`
      }
    </p>`,
    verb: 'Clear the override',
    onClose,
    onPublished: onCleared,
  });
}

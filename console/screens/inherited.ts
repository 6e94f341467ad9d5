/**
 * What holds instead of the overrides that an edit empties, from the layers below, before it is
 * published.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { get, withQuery } from '../api.ts';
import { html } from '../html.ts';
import { useLoaded } from '../loading.ts';
import { isObject, type JsonObject } from '../merge-patch.ts';
import { Value } from '../parts.ts';
import { layerTitles, type Explained } from './ladder.ts';

type Effective = ResultOf<'config-resolver.resolve'>;

/**
 * A key that a layer will say nothing of any more, and whom effective values are asked for to see
 * it.
 */
interface Emptied {
  readonly key: string;
  readonly layer: Explained['layer'];
  readonly question: Readonly<Record<string, string>>;
}

const removedIn = (patch: unknown): string[] =>
  isObject(patch) ? Object.keys(patch).filter((name) => patch[name] === null) : [];

/** `kind` is the name of a kind of documents, `id` that of the document. */
export function emptiedBy(kind: string, id: string, patch: JsonObject): Emptied[] {
  const all = (keys: readonly string[], layer: Emptied['layer'], question: Emptied['question']) =>
    keys.map((key): Emptied => ({ key, layer, question }));
  if (kind === 'agents') return all(removedIn(patch), 'agent', { agent_type: id });
  if (kind === 'services') return all(removedIn(patch), 'service_instance', { service_id: id });
  const { service_overrides: overrides } = patch;
  if (kind !== 'risk' || !isObject(overrides)) return [];
  return Object.entries(overrides).flatMap(([type, change]) =>
    all(removedIn(change), 'tenant_risk', { service_type: type }),
  );
}

/**
 * The next value below the layer's own; for an override of the risk limits that is the limit
 * itself.
 */
function below({ explain = {} }: Effective, { key, layer }: Emptied) {
  const explained = Object.hasOwn(explain, key) ? explain[key] : undefined;
  if (!explained) return undefined;
  const all = [explained, ...explained.shadowed];
  const own = all.findIndex((each) => each.layer === layer);
  return own < 0 ? undefined : all[own + 1];
}

/** More of them nobody reads, and a browser lays them all out at once. */
const mostNamed = 100;

export function Inherited({
  tenantId,
  emptied,
}: {
  readonly tenantId: string;
  readonly emptied: readonly Emptied[];
}): VNode | null {
  const questions = [...new Set(emptied.map(({ question }) => JSON.stringify(question)))];
  const { data } = useLoaded(`${tenantId} ${questions.join(' ')}`, async (aborted) => {
    const answers = questions.map(async (text) => {
      const question = JSON.parse(text) as Record<string, string>;
      const address = withQuery(`/tenants/${tenantId}/config/effective`, {
        ...question,
        explain: 'true',
      });
      return [text, await get<Effective>(address, aborted)] as const;
    });
    return new Map(await Promise.all(answers));
  });
  if (emptied.length === 0 || !data) return null;
  const others = emptied.length - mostNamed;
  return html`<ul class="inherited" aria-label="What holds instead">
    ${emptied.slice(0, mostNamed).map((each) => {
      const effective = data.get(JSON.stringify(each.question));
      const next = effective && below(effective, each);
      const where = Object.values(each.question).join(' · ');
      return html`<li key=${`${where} ${each.key}`}>
        <strong><bdi>${each.key}</bdi></strong>:${' '}
        ${
          next
            ? html`<span>${layerTitles[next.layer]} says <${Value} value=${next.value} longest=${120} /> instead.</span>`
            : 'no layer below says anything.'
        }
      </li>`;
    })}
    ${others > 0 && html`<li key="others">and ${others} more keys, which the changes list.</li>`}
  </ul>`;
}

/**
 * What holds instead of the overrides that an edit empties, from the layers below, before it is
 * published.
 */
import type { VNode } from 'preact';
import { call } from '../api.ts';
import type { Context } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { isObject, type JsonObject } from '../../shared/schema/json-pointer.ts';
import { EffectOf } from './effect.tsx';
import { trialAddress, type EffectiveChange } from './trial.ts';
import { Strong } from '../inline.tsx';

/**
 * A key that a layer will say nothing of any more, and whom effective values are asked for to see
 * it.
 */
interface Emptied {
  readonly key: string;
  readonly question: Readonly<Record<string, string>>;
}

const removedIn = (patch: unknown): string[] =>
  isObject(patch) ? Object.keys(patch).filter((name) => patch[name] === null) : [];

/** `kind` is the name of a kind of documents, `id` that of the document. */
export function emptiedBy(kind: string, id: string, patch: JsonObject): Emptied[] {
  const all = (keys: readonly string[], question: Emptied['question']) =>
    keys.map((key): Emptied => ({ key, question }));
  if (kind === 'agents') return all(removedIn(patch), { agent_type: id });
  if (kind === 'services') return all(removedIn(patch), { service_id: id });
  const { service_overrides: overrides } = patch;
  if (kind !== 'risk' || !isObject(overrides)) return [];
  return Object.entries(overrides).flatMap(([type, change]) =>
    all(removedIn(change), { service_type: type }),
  );
}

/** More of them nobody reads, and a browser lays them all out at once. */
const mostNamed = 100;

/** The keys are of a PATCH that is looked at; what becomes of each is what its trial says. */
export function Inherited({
  address,
  patch,
  emptied,
}: {
  readonly address: string;
  readonly patch: JsonObject;
  readonly emptied: readonly Emptied[];
}): VNode | null {
  const questions = [...new Set(emptied.map(({ question }) => JSON.stringify(question)))];
  const asked = `${address} ${JSON.stringify(patch)} ${questions.join(' ')}`;
  const { data } = useLoaded(asked, async (aborted) => {
    const answers = questions.map(async (text) => {
      const context = JSON.parse(text) as Context;
      const { body } = await call<{ readonly effective: readonly EffectiveChange[] }>(
        'PATCH',
        trialAddress(address, { context }),
        { body: patch, signal: aborted },
      );
      return [text, body.effective] as const;
    });
    return new Map(await Promise.all(answers));
  });
  if (emptied.length === 0 || !data) return null;
  const others = emptied.length - mostNamed;
  return (
    <ul class="inherited" aria-label="What holds instead">
      {emptied.slice(0, mostNamed).map((each) => {
        const changes = data.get(JSON.stringify(each.question)) ?? [];
        const change = changes.find(({ key }) => key === each.key);
        const where = Object.values(each.question).join(' · ');
        return (
          <li key={`${where} ${each.key}`}>
            <Strong>{each.key}</Strong>:{' '}
            {change ? <EffectOf change={change} /> : 'nothing changes.'}
          </li>
        );
      })}
      {others > 0 && <li key="others">and {others} more keys, which the changes list.</li>}
    </ul>
  );
}

/** What an API key, or the trust in a workload, is narrowed to: as it is asked for, and shown. */
import type { VNode } from 'preact';
import type { NarrowedTo } from '../../shared/contracts/narrow-keys.ts';
import { Field } from '../fields.tsx';

/** As people type it: names with commas between them. */
interface NarrowingTexts {
  readonly service_ids: string;
  readonly agent_types: string;
  readonly documents: string;
}
export const notNarrowed: NarrowingTexts = { service_ids: '', agent_types: '', documents: '' };

/** Words with spaces or commas between them. */
export const namesIn = (text: string): string[] =>
  text.split(/[\s,]+/).filter((name) => name !== '');

/** What a body has of it; nothing where nothing was typed. */
export function narrowingIn(texts: NarrowingTexts): { readonly narrowed_to?: NarrowedTo } {
  const lists = Object.entries(texts).flatMap(([name, text]) => {
    const names = namesIn(text);
    return names.length > 0 ? [[name, names]] : [];
  });
  return lists.length > 0 ? { narrowed_to: Object.fromEntries(lists) as NarrowedTo } : {};
}

export function NarrowingFields({
  texts,
  onTexts,
}: {
  readonly texts: NarrowingTexts;
  readonly onTexts: (texts: NarrowingTexts) => void;
}): VNode {
  const field = (name: keyof NarrowingTexts, label: string, placeholder: string): VNode => (
    <Field
      label={label}
      name={name}
      spellcheck={false}
      placeholder={placeholder}
      value={texts[name]}
      onValue={(text) => onTexts({ ...texts, [name]: text })}
    />
  );
  return (
    <details>
      <summary>Only for some services, agents or documents</summary>
      <p class="fine">
        Names with commas between them; all of them where nothing is named. A narrow key reads no
        lists, no history of others and no audit.
      </p>
      {field('service_ids', 'Service instances', 'checkout-api')}
      {field('agent_types', 'Types of agent', 'scaler')}
      {field('documents', 'Paths of documents', '/tenants/…/config/risk')}
    </details>
  );
}

/** What a key or a rule of trust allows, and what for alone. */
export const Allowed = ({
  scopes,
  narrowed_to: to,
}: {
  readonly scopes: readonly string[];
  readonly narrowed_to?: NarrowedTo | undefined;
}): VNode => (
  <>
    {scopes.map((scope) => (
      <span key={scope} class="tag">
        {scope}
      </span>
    ))}
    <NarrowedTags to={to} />
  </>
);

const NarrowedTags = ({ to }: { readonly to: NarrowedTo | undefined }): VNode | null =>
  to === undefined ? null : (
    <div class="fine">
      only{' '}
      {Object.values(to)
        .flat()
        .map((name) => (
          <code key={name}>
            <bdi>{name}</bdi>{' '}
          </code>
        ))}
    </div>
  );

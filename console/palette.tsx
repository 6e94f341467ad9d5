/**
 * The command palette, Ctrl-K: pages, services, agents, keys and people by a part of their name, for
 * whoever knows where to go.
 */
import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { ResultOf } from '../shared/contracts/index.ts';
import { go } from './address.ts';
import { get, getAll, withQuery } from './api.ts';
import { useLoaded } from './loading.ts';
import { Dialog } from './parts.tsx';
import { platformScreens, visibleScreens } from './screens.ts';
import { hasRole, isPlatformAdmin, tenant } from './session.ts';
import { Form } from './fields.tsx';

type Contexts = ResultOf<'tenant-config.contexts'>;
type Effective = ResultOf<'config-resolver.resolve'>;
type Member = ResultOf<'tenant-config.members.list'>['items'][number];

interface Target {
  readonly kind: 'Page' | 'Service' | 'Agent' | 'Key' | 'Person';
  readonly title: string;
  readonly address: string;
}

const isOpen = signal(false);
export const openPalette = (): void => {
  isOpen.value = true;
};

/** For as long as somebody is signed in. Returns how to stop listening. */
function listenForPalette(): () => void {
  const onKey = (event: KeyboardEvent): void => {
    const isWanted = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k';
    // What is asked in a dialog is answered first.
    if (!isWanted || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    openPalette();
  };
  addEventListener('keydown', onKey);
  return () => removeEventListener('keydown', onKey);
}

function pages(): Target[] {
  const id = tenant.value?.id;
  const own = id === undefined ? [] : visibleScreens();
  return [
    ...own.map(({ name, title }) => ({ title, address: `/tenants/${id}/${name}` })),
    ...(isPlatformAdmin.value ? platformScreens : []).map(({ name, title }) => ({
      title: `Platform: ${title}`,
      address: `/platform/${name}`,
    })),
    { title: 'Your account', address: '/account' },
  ].map((each) => ({ kind: 'Page', ...each }) as const);
}

/** What the tenant has, as far as the person may read it. */
async function targetsOf(id: string, aborted: AbortSignal): Promise<Target[]> {
  const effective = (parameters: Readonly<Record<string, string>>): string =>
    withQuery(`/tenants/${id}/effective`, parameters);
  const [contexts, { values }, members] = await Promise.all([
    get<Contexts>(`/tenants/${id}/contexts`, aborted),
    get<Effective>(`/tenants/${id}/config/effective`, aborted),
    hasRole('tenant_admin') ? getAll<Member>(`/tenants/${id}/users`, aborted) : [],
  ]);
  const target = (kind: Target['kind'], title: string, address: string): Target => ({
    kind,
    title,
    address,
  });
  return [
    ...contexts.services.map(({ service_id: service }) =>
      target('Service', service, effective({ service_id: service })),
    ),
    ...contexts.agent_types.map((agent) =>
      target('Agent', agent, effective({ agent_type: agent })),
    ),
    ...Object.keys(values).map((key) => target('Key', key, effective({ q: key, open: key }))),
    ...members.map(({ email, display_name: name }) => {
      const address = withQuery(`/tenants/${id}/members`, { q: email });
      return target('Person', name === null ? email : `${name} ${email}`, address);
    }),
  ];
}

/** More than that nobody reads: another letter narrows it. */
const mostShown = 10;

/** Those that begin with the text first. */
function fitting(targets: readonly Target[], text: string): Target[] {
  const wanted = text.trim().toLowerCase();
  const at = ({ title }: Target): number => title.toLowerCase().indexOf(wanted);
  return targets
    .filter((each) => at(each) >= 0)
    .toSorted((one, other) => Number(at(one) > 0) - Number(at(other) > 0))
    .slice(0, mostShown);
}

export function Palette(): VNode | null {
  useEffect(listenForPalette, []);
  return isOpen.value ? <Search onClose={() => (isOpen.value = false)} /> : null;
}

function Search({ onClose }: { readonly onClose: () => void }): VNode {
  const id = tenant.value?.id;
  const { data } = useLoaded(`palette ${id}`, async (aborted) =>
    id === undefined ? [] : targetsOf(id, aborted),
  );
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const shown = fitting([...pages(), ...(data ?? [])], text);
  const current = Math.min(chosen, shown.length - 1);
  const follow = (target: Target | undefined): void => {
    if (!target) return;
    onClose();
    go(target.address);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setChosen((current + step + shown.length) % Math.max(1, shown.length));
  };
  return (
    <Dialog title="Go to" isAside onClose={onClose}>
      <Form class="palette" onSend={() => follow(shown[current])}>
        <input
          autofocus
          type="text"
          role="combobox"
          aria-label="Page, service, key or person"
          aria-expanded="true"
          aria-autocomplete="list"
          aria-controls="palette-results"
          aria-activedescendant={shown.length > 0 ? `palette-${current}` : undefined}
          placeholder="Page, service, key or person"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onKeyDown={onKey}
          onInput={({ currentTarget }) => {
            setText(currentTarget.value);
            setChosen(0);
          }}
        />
        <ul id="palette-results" role="listbox" aria-label="Results">
          {shown.map((each, index) => (
            <li
              key={each.address}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === current}
              onClick={() => follow(each)}
            >
              <bdi>{each.title}</bdi> <span class="fine">{each.kind}</span>
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p class="fine">Nothing has this in its name.</p>}
      </Form>
    </Dialog>
  );
}

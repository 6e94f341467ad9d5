/** The address is what a screen shows: whoever opens the same link sees the same. */
import { computed, signal } from '@preact/signals';
import { root } from './api.ts';

const base = `${root}/console`;
const here = signal(new URL(location.href));

/** Behind `/console`, without a final slash; empty for the console itself. */
export const path = computed(() => here.value.pathname.slice(base.length).replace(/\/$/, ''));
export const query = computed(() => here.value.searchParams);

/** Whose screens the address is in: the id of a tenant, or nothing. */
export const tenantShown = computed(() => /^\/tenants\/([^/]+)/.exec(path.value)?.[1] ?? '');
/** Of that tenant: a screen of the console, or what the API has. */
export const ofTenant = (inside = ''): string => `/tenants/${tenantShown.value}${inside}`;

/** Of the address; empty where it says nothing of it. */
export const parameter = (name: string): string => query.value.get(name) ?? '';

/** What the filter of a screen asks for. */
export const wantedText = (): string => parameter('q').trim().toLowerCase();

export const hrefOf = (inside: string): string => base + inside;

/** There while a screen has unsaved edits, and asked before it is left; false stays. */
const guarding = signal<(() => boolean) | undefined>(undefined);
export function guardLeaving(guard: (() => boolean) | undefined): void {
  guarding.value = guard;
}
/** Whether the screen that is shown has unsaved edits. */
export const hasEdits = computed(() => guarding.value !== undefined);
/** How many dialogs hold what somebody typed, or is shown once. */
const holding = signal(0);
/** Until the returned function is called. */
export function holdPage(): () => void {
  holding.value += 1;
  return () => {
    holding.value = Math.max(0, holding.value - 1);
  };
}
/** Whether something would be lost with the screen that is shown. */
export const isHeld = computed(() => hasEdits.value || holding.value > 0);
export function dropHeld(): void {
  guarding.value = undefined;
  holding.value = 0;
}

/** Whether what is edited may be left, where something is. */
export const mayLeave = (): boolean => guarding.peek()?.() ?? true;

/** A key or a gesture that goes back means what is seen, and a dialog is not left by it unasked. */
const mayGoBack = (): boolean =>
  hasEdits.peek() || holding.peek() === 0
    ? mayLeave()
    : confirm('Leave this page? What is open over it is lost.');

addEventListener('popstate', () => {
  const target = new URL(location.href);
  const isOther = target.pathname !== here.value.pathname;
  // The browser is there already: the screen that stays gets an entry of its own again.
  if (isOther && !mayGoBack()) history.pushState(null, '', here.value);
  else here.value = target;
});

addEventListener('beforeunload', (event) => {
  // The browser itself asks, and lets no page ask then.
  if (hasEdits.value) event.preventDefault();
});

export function go(inside: string, { replace = false } = {}): void {
  const target = new URL(hrefOf(inside), location.href);
  if (target.pathname !== here.value.pathname && !mayLeave()) return;
  if (replace) history.replaceState(null, '', target);
  else history.pushState(null, '', target);
  here.value = target;
}

/**
 * Changes parameters of the address in place: an empty value removes its parameter, a list gives
 * one for each value.
 */
export function setQuery(parameters: Readonly<Record<string, string | readonly string[]>>): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(parameters)) {
    const [first, ...others] = [value].flat().filter((each) => each !== '');
    if (first === undefined) next.delete(name);
    else next.set(name, first);
    for (const other of others) next.append(name, other);
  }
  const text = next.toString();
  go(path.value + (text === '' ? '' : `?${text}`), { replace: true });
}

/**
 * What is unfolded in a list: each has a parameter `open` of its own, since a key may hold any
 * character.
 */
export const opened = (): Set<string> => new Set(query.value.getAll('open'));

export function toggleOpened(name: string): void {
  const open = opened();
  if (!open.delete(name)) open.add(name);
  setQuery({ open: [...open] });
}

/**
 * For links inside the console: a click stays on the page, unless it asks for a tab or window of
 * its own.
 */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    const isPlain =
      event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    const link = event.target instanceof Element ? event.target.closest('a[href]') : null;
    if (!isPlain || !(link instanceof HTMLAnchorElement) || link.target !== '') return;
    const target = new URL(link.href);
    const isInside = target.origin === location.origin && isOfConsole(target.pathname);
    if (!isInside || link.hash !== '' || event.defaultPrevented) return;
    event.preventDefault();
    go(target.pathname.slice(base.length) + target.search);
    scrollTo(0, 0);
  });
}

const isOfConsole = (pathname: string): boolean =>
  pathname === base || pathname.startsWith(`${base}/`);

/**
 * The secret of a mailed link, which is in the fragment so that no server sees it. Once read it
 * is gone from the address, and so from the history of the browser.
 */
export function takeLinkToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? undefined;
  if (location.hash !== '') {
    history.replaceState(null, '', location.pathname + location.search);
    here.value = new URL(location.href);
  }
  return token;
}

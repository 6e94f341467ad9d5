/**
 * The place of whoever works by keyboard, or is read to. Browsers forget it when what has the focus
 * is drawn again, goes, or is disabled: the next key would begin at the top of the page. It continues
 * at what took the place, or else at what is around it.
 */

export interface FocusTarget {
  readonly element: HTMLElement;
  /** What it is called, with all that is around it: what is drawn again is called the same. */
  readonly path: string;
  /** What it is in, inside first. */
  readonly around: readonly HTMLElement[];
}

/** Of what is around an element, names tell rows, groups and regions apart. */
function nameAround(element: Element): string {
  const row = element instanceof HTMLTableRowElement && element.querySelector('th[scope=row]');
  return element.getAttribute('aria-label') ?? (row ? (row.textContent ?? '') : '');
}

const ownName = (element: Element): string =>
  element.getAttribute('aria-label') ??
  (element.getAttribute('name') || (element.textContent ?? '').slice(0, 200));

function ancestorsOf(element: Element): HTMLElement[] {
  const found: HTMLElement[] = [];
  for (let each = element.parentElement; each !== null; each = each.parentElement) found.push(each);
  return found;
}

function pathOf(element: Element, around: readonly Element[]): string {
  const names = around.map(nameAround).filter((name) => name !== '');
  return JSON.stringify([element.tagName, ownName(element), ...names]);
}

/** Undefined for the page itself, which is no place. */
export function focusTargetOf(element: Element | null): FocusTarget | undefined {
  if (!(element instanceof HTMLElement) || element === document.body) return undefined;
  const around = ancestorsOf(element);
  return { element, path: pathOf(element, around), around };
}

/** Whether it could be given the focus. */
function took(element: HTMLElement): boolean {
  element.focus({ preventScroll: true });
  return document.activeElement === element;
}

export function goBackTo({ element, path, around }: FocusTarget): void {
  if (element.isConnected && took(element)) return;
  const same = [...document.querySelectorAll<HTMLElement>(element.tagName)].filter(
    (each) => each !== element && pathOf(each, ancestorsOf(each)) === path,
  );
  if (same.some(took)) return;
  around.filter((each) => each.isConnected && each.hasAttribute('tabindex')).some(took);
}

let latest: FocusTarget | undefined;

const isDisabled = (element: Element): boolean => element.matches(':disabled');
/** A button that waits for an answer is disabled for a moment only. */
const isBusy = (element: Element): boolean => element.getAttribute('aria-busy') === 'true';

function forgetIfLeft(element: EventTarget | null): void {
  const isLeft =
    element instanceof Element &&
    element.isConnected &&
    !isDisabled(element) &&
    document.activeElement !== element;
  if (isLeft && latest?.element === element) latest = undefined;
}

function restore(): void {
  if (latest === undefined) return;
  const { element } = latest;
  const active = document.activeElement;
  const isThere = active === element && !isDisabled(element);
  const isElsewhere = active !== null && active !== document.body && active !== element;
  if (isThere || isElsewhere) return;
  if (element.isConnected && isDisabled(element) && isBusy(element)) return;
  goBackTo(latest);
}

/** From now on, for the whole page. */
export function keepFocus(): void {
  document.addEventListener('focusin', ({ target }) => {
    latest = focusTargetOf(target instanceof Element ? target : null);
  });
  // Whoever clicks beside everything has left; what is taken away from under the focus has not been
  // left.
  document.addEventListener('focusout', ({ target }) => {
    queueMicrotask(() => forgetIfLeft(target));
  });
  new MutationObserver(restore).observe(document.body, {
    childList: true,
    subtree: true,
    attributeFilter: ['disabled'],
  });
}

/**
 * What somebody types that is not sent yet, kept over a reload: in this tab, for this person, until
 * it is sent, put away or they sign out.
 *
 * | Danger                                | Bounded by                                            |
 * |---------------------------------------|-------------------------------------------------------|
 * | somebody else signs in to the tab     | a draft has the id of whose it is, and others drop it |
 * | it outlives the session               | signing out drops all; the browser does with the tab  |
 * | more than the browser keeps           | what does not fit is not kept, and the page works on  |
 */
import { effect } from '@preact/signals';
import { useState } from 'preact/hooks';
import { tokens, user } from './session.ts';

const prefix = 'draft ';

interface Kept {
  readonly of: string;
  readonly value: unknown;
}

/** Undefined where none is kept for whoever is signed in. */
export function keptDraft<T>(name: string): T | undefined {
  const text = sessionStorage.getItem(prefix + name);
  if (text === null) return undefined;
  const { of, value } = JSON.parse(text) as Kept;
  if (of === user.value?.id) return value as T;
  sessionStorage.removeItem(prefix + name);
  return undefined;
}

export function keepDraft(name: string, value: unknown): void {
  if (value === undefined || !user.value) sessionStorage.removeItem(prefix + name);
  else {
    try {
      sessionStorage.setItem(
        prefix + name,
        JSON.stringify({ of: user.value.id, value } satisfies Kept),
      );
    } catch {
      sessionStorage.removeItem(prefix + name);
    }
  }
}

/** As `useState`, and kept: undefined is no draft. */
export function useDraft<T>(name: string): [T | undefined, (value: T | undefined) => void] {
  const [value, setValue] = useState(() => keptDraft<T>(name));
  const set = (next: T | undefined): void => {
    keepDraft(name, next);
    setValue(next);
  };
  return [value, set];
}

effect(() => {
  if (tokens.value !== null) return;
  for (const key of Object.keys(sessionStorage))
    if (key.startsWith(prefix)) sessionStorage.removeItem(key);
});

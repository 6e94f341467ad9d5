/** What a document of freezes must fulfil beyond its schema, for what a write of it changes. */
import { isDeepStrictEqual } from 'node:util';
import type { Freeze, Freezes, FreezeWindow } from '../contracts/freezes.ts';
import type { Problem } from '../errors.ts';
import { pointerTo } from '../schema/json-pointer.ts';
import { isDayOfYear, isLocalTime, kindOf, spanOf } from './windows.ts';

/** Of all freezes of a document together: each start looks at them. */
const mostWindows = 1000;
const countWindows = (freezes: Freezes): number =>
  Object.values(freezes).reduce((count, { during }) => count + during.length, 0);

/** `at` in Unix milliseconds; null for a rollback, which may restore what is over. */
export function freezesProblems(
  next: Freezes,
  current: Freezes | null,
  at: number | null,
): Problem[] {
  const windows = countWindows(next);
  if (windows > mostWindows && windows > countWindows(current ?? {}))
    return [
      { path: '', message: `must not have more than ${mostWindows} windows in all its freezes` },
    ];
  return Object.entries(next).flatMap(([name, freeze]) => {
    const before = current && Object.hasOwn(current, name) ? current[name]! : undefined;
    return isDeepStrictEqual(freeze, before) ? [] : ofFreeze(name, freeze, before, at);
  });
}

function ofFreeze(
  name: string,
  freeze: Freeze,
  before: Freeze | undefined,
  at: number | null,
): Problem[] {
  const isNew = (one: unknown, others: readonly unknown[]): boolean =>
    !others.some((other) => isDeepStrictEqual(one, other));
  const windows = freeze.during.flatMap((window, index) =>
    ofWindow(
      pointerTo([name, 'during', String(index)]),
      window,
      isNew(window, before?.during ?? []) ? at : null,
    ),
  );
  const overrides = Object.entries(freeze.overrides ?? {}).flatMap(([each, override]) => {
    const { from, until } = override;
    const path = pointerTo([name, 'overrides', each, 'until']);
    if (from !== undefined && Date.parse(until) <= Date.parse(from))
      return [{ path, message: 'must be after `from`' }];
    const known = Object.values(before?.overrides ?? {});
    return at !== null && isNew(override, known) && Date.parse(until) <= at
      ? [{ path, message: 'is in the past' }]
      : [];
  });
  return [...windows, ...overrides];
}

function ofWindow(path: string, window: FreezeWindow, at: number | null): Problem[] {
  switch (kindOf(window)) {
    case undefined:
      return [
        {
          path,
          message:
            'needs either `from` and `until`, or `days`, `start` and `end` (with or without `of_month`), or `dates`',
        },
      ];
    case 'dated':
      return ofDated(path, window, at);
    case 'weekly':
      return [];
    case 'yearly':
      return window.dates!.flatMap((text, index) =>
        isDayOfYear(text)
          ? []
          : [{ path: `${path}/dates/${index}`, message: 'is a day that no year has' }],
      );
  }
}

function ofDated(path: string, window: FreezeWindow, at: number | null): Problem[] {
  const unknown = (['from', 'until'] as const).filter((field) => !isLocalTime(window[field]!));
  if (unknown.length > 0)
    return unknown.map((field) => ({
      path: `${path}/${field}`,
      message: 'is a date that does not exist',
    }));
  const { from, until } = spanOf(window);
  if (until <= from)
    return [{ path: `${path}/until`, message: 'must be after `from`: the window is empty' }];
  return at !== null && until <= at
    ? [{ path: `${path}/until`, message: 'is in the past: the window is over' }]
    : [];
}

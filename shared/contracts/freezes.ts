/**
 * Freezes: when automation may not act, or the only times at which it may. One document each:
 * `freezes_platform`, which holds in every tenant, and `freezes_{tenant_id}`, which adds to it.
 * Only the document that has a freeze can override it.
 */
import { Type, type Static } from 'typebox';
import { LimitMatch, limitMode, LimitName, limitOwner, limitReason, timeZone } from './budgets.ts';
import { documentsOfBoth } from './documents-of-both.ts';
import {
  described,
  DescribedObject,
  Optional,
  patterns,
  SomeOf,
  strict,
  Timestamp,
  TitledObject,
} from './fields.ts';
import { dryRun } from './contract.ts';
import { impactQuery } from './impact.ts';
import { riskLevels } from './notifier.ts';
import { weekdays } from './weekdays.ts';
import { TimeOfDay } from './weekly-hours.ts';

const LocalTime = Type.String({
  pattern: patterns.localTime,
  description: 'YYYY-MM-DDTHH:MM by the clocks of the zone, without an offset',
  examples: ['2026-12-24T18:00'],
});

/** Which of its fields go together is said by `kindOf` in `shared/budgets/windows.ts`. */
export const FreezeWindow = TitledObject(
  'FreezeWindow',
  'Either `from` and `until`, or `days` with `start` and `end`, or `dates`; by the clocks of a zone',
  {
    from: Type.Optional(
      described(LocalTime, 'When it begins: YYYY-MM-DDTHH:MM', '2026-12-24T18:00'),
    ),
    until: Type.Optional(
      described(LocalTime, 'When it has ended: YYYY-MM-DDTHH:MM', '2026-12-27T06:00'),
    ),
    days: Type.Optional(
      SomeOf([...weekdays], { minItems: 1, description: 'Every week: on which days it begins' }),
    ),
    of_month: Type.Optional(
      SomeOf(['first', 'second', 'third', 'fourth', 'last'], {
        minItems: 1,
        description: 'With `days`: only the first, … or last such day of a month',
      }),
    ),
    start: Type.Optional(described(TimeOfDay, 'With `days`: when it begins, HH:MM', '22:00')),
    end: Type.Optional(
      described(
        TimeOfDay,
        'With `days`: when it ends, HH:MM; the next day where that is not after `start`',
        '06:00',
      ),
    ),
    dates: Optional.Array(
      Type.String({ pattern: '^(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$', examples: ['12-25'] }),
      {
        minItems: 1,
        maxItems: 366,
        uniqueItems: true,
        description: 'Every year: these whole days, MM-DD',
      },
    ),
    timezone: Type.String({ ...timeZone, description: 'IANA name of the zone whose clocks count' }),
  },
);
export type FreezeWindow = Static<typeof FreezeWindow>;

const FreezeOverride = TitledObject(
  'FreezeOverride',
  'For what the freeze does not hold, until when, and why',
  {
    from: Type.Optional(described(Timestamp, 'From when on; without it, it holds already')),
    until: described(Timestamp, 'Until when'),
    match: Type.Optional(LimitMatch),
    reason: Type.String({
      minLength: 1,
      maxLength: 500,
      description: 'Why the freeze is overridden',
    }),
  },
);

export const Freeze = TitledObject('Freeze', 'When automation may not act', {
  during: Type.Array(FreezeWindow, { minItems: 1, maxItems: 100, description: 'When' }),
  only_within: Optional.Boolean({
    description: 'The windows are the only times at which automation may act; false by default',
  }),
  match: Type.Optional(LimitMatch),
  allow: Type.Optional(
    DescribedObject('What may act all the same', {
      rollbacks: Optional.Boolean({
        description: 'Rollbacks that are proven pass; false by default',
      }),
      risk_levels: Type.Optional(
        SomeOf([...riskLevels], { minItems: 1, description: 'These risk levels pass' }),
      ),
    }),
  ),
  overrides: Type.Optional(
    Type.Record(LimitName, FreezeOverride, {
      ...strict,
      maxProperties: 100,
      description: 'By name, for what it does not hold, until when, and why',
    }),
  ),
  mode: limitMode,
  reason: limitReason,
});
export type Freeze = Static<typeof Freeze>;

export const Freezes = Type.Record(LimitName, Freeze, {
  ...strict,
  maxProperties: 100,
  title: 'Freezes',
  description: 'By name, when automation may not act',
  examples: [{ holidays: { during: [{ dates: ['12-25', '12-26'], timezone: 'Europe/Rome' }] } }],
});
export type Freezes = Static<typeof Freezes>;

/** One freeze, and whose it is. */
export const FreezeInForce = TitledObject('FreezeInForce', 'A freeze that holds here', {
  by: limitOwner,
  name: described(LimitName, 'Its name in the document'),
  rule: Freeze,
  revision: Type.Integer({ description: 'Of the document' }),
});
export type FreezeInForce = Static<typeof FreezeInForce>;

const freezes = documentsOfBoth(
  'freezes',
  { document: Freezes, trial: { ...dryRun, ...impactQuery } },
  { document: Freezes, trial: { ...dryRun, impact: impactQuery.impact } },
);
export const { platformKey: platformFreezesKey, tenantKey: tenantFreezesKey } = freezes;

export const freezeContracts = {
  ...freezes.ofPlatform,
  ...freezes.ofTenant,
} as const;

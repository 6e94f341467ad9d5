/**
 * Hours of the week on a place's own clock: when automation keeps to business hours, when an
 * instance is maintained.
 */
import { Type, type Static } from 'typebox';
import { described, SomeOf, TitledObject } from './fields.ts';
import { weekdays } from './weekdays.ts';

export const TimeOfDay = Type.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' });

export const WeeklyHours = TitledObject('WeeklyHours', "Hours of the week on a place's own clock", {
  days: SomeOf([...weekdays], { minItems: 1, description: 'On which days they start' }),
  start: described(TimeOfDay, 'When they start, HH:MM', '09:00'),
  end: described(
    TimeOfDay,
    'When they end, HH:MM; the next day where that is not after `start`',
    '17:00',
  ),
  timezone: Type.String({
    minLength: 1,
    maxLength: 64,
    format: 'iana-time-zone',
    description: 'IANA name, such as Europe/Rome',
    examples: ['Europe/Rome'],
  }),
});
export type WeeklyHours = Static<typeof WeeklyHours>;

/**
 * The key `business_hours` of the layers. From `start` to before `end`; an end that is not after
 * the start is the next day's. A time that a change of the clocks leaves out is the first instant
 * after it, one that comes twice is the first of the two.
 */
export const BusinessHours = described(WeeklyHours, 'When automation acts, where it keeps to them');
export type BusinessHours = WeeklyHours;

/** Its name in every layer. */
export const businessHoursKey = 'business_hours';

/** Windows of freezes as people read them. */
import type { FreezeWindow } from '../../shared/contracts/freezes.ts';

export type WindowKind = 'dated' | 'weekly' | 'yearly';

export const kindOfWindow = ({ days, dates }: FreezeWindow): WindowKind =>
  days ? 'weekly' : dates ? 'yearly' : 'dated';

/** The zone of whoever looks. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** More dates are cut: each is in the form. */
const mostDates = 12;

export function windowText(window: FreezeWindow): string {
  const { from = '', until = '', days = [], of_month: ordinals, start, end, dates = [] } = window;
  const zone = window.timezone;
  switch (kindOfWindow(window)) {
    case 'dated':
      return `${from.replace('T', ' ')} – ${until.replace('T', ' ')} (${zone})`;
    case 'weekly': {
      const which = ordinals
        ? `the ${ordinals.join(', ')} ${days.join(', ')} of a month`
        : days.join(', ');
      return `${which} ${start} – ${end} (${zone})`;
    }
    case 'yearly': {
      const shown = dates.slice(0, mostDates).join(', ');
      return `each year ${shown}${dates.length > mostDates ? ' …' : ''} (${zone})`;
    }
  }
}

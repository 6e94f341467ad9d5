import { times } from './properties.ts';

/**
 * A time zone for each way in which clocks change between 2026 and 2030: the 140 whose clocks do
 * are of 31 kinds. Where more is tried, as in `npm run test:soak`, all zones that there are.
 */
export const zonesThatChange =
  times > 1
    ? Intl.supportedValuesOf('timeZone')
    : [
        'Africa/Cairo',
        'Africa/Casablanca',
        'America/Adak',
        'America/Anchorage',
        'America/Chicago',
        'America/Denver',
        'America/Edmonton',
        'America/Godthab',
        'America/Halifax',
        'America/Havana',
        'America/Los_Angeles',
        'America/Miquelon',
        'America/New_York',
        'America/Santiago',
        'America/St_Johns',
        'America/Vancouver',
        'Antarctica/Troll',
        'Asia/Beirut',
        'Asia/Gaza',
        'Asia/Jerusalem',
        'Atlantic/Azores',
        'Australia/Adelaide',
        'Australia/Lord_Howe',
        'Australia/Sydney',
        'Europe/Athens',
        'Europe/Berlin',
        'Europe/London',
        'Pacific/Auckland',
        'Pacific/Chatham',
        'Pacific/Easter',
        'Pacific/Norfolk',
      ];

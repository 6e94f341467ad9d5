/** Apart from the schemas that name them: the console reads calendars without these. */

/** In the order of ISO 8601, which counts them from 1. */
export const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;

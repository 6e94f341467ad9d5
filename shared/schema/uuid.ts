/** How ids are written: UUIDs in lower case. As a part of a regular expression, without groups. */
export const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

const whole = new RegExp(`^${uuid}$`);
export const isUuid = (text: string): boolean => whole.test(text);

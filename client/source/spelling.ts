/**
 * Names in JavaScript's spelling and in the gateway's. What the members hold stays as it is; those
 * that hold nothing are left out.
 */

export const inCamelCase = (object: object): object =>
  renamed(object, (name) =>
    name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase()),
  );

export const inSnakeCase = (object: object): Record<string, unknown> =>
  renamed(object, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

const renamed = (object: object, rename: (name: string) => string): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(object)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [rename(name), value]),
  );

/** Without `randomUUID`, which browsers have on https alone. */
export const randomName = (): string =>
  globalThis.crypto.getRandomValues(new Uint32Array(4)).join('-');

/** Names in JavaScript's spelling and in the gateway's. What the members hold stays as it is. */

export const inCamelCase = (object: object): object =>
  renamed(object, (name) =>
    name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase()),
  );

export const inSnakeCase = (object: object): object =>
  renamed(object, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

const renamed = (object: object, rename: (name: string) => string): object =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [rename(name), value]));

/** Values of which there are several kinds, each with its own fields. */

interface Shape {
  readonly properties?: Readonly<Record<string, { readonly const?: unknown }>>;
}

/** Which of the shapes a value has: by what each says of itself, then by the names of its fields. */
export function shapeOf(shapes: readonly Shape[], value: object): number {
  const members = Object.entries(value);
  const fits = ({ properties = {} }: Shape): boolean =>
    members.every(([name, member]) => {
      const field = Object.hasOwn(properties, name) ? properties[name] : undefined;
      return field !== undefined && (!('const' in field) || field.const === member);
    });
  return Math.max(0, shapes.findIndex(fits));
}

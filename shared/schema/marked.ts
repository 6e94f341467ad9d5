/** Finds the texts of a value that its schema marks (`shared/contracts/marks.ts`). */
import { marks } from '../contracts/marks.ts';
import { isObject, type JsonObject } from './json-pointer.ts';

/** What secrets are sent to: the object with the address, as `marks.secretsOf` names it. */
interface Receiver {
  readonly kind: string;
  readonly path: readonly string[];
}

export interface MarkedText {
  readonly path: readonly string[];
  readonly text: string;
  readonly isSecret: boolean;
  readonly isCalled: boolean;
  /** Undefined outside of all receivers. */
  readonly receiver: Receiver | undefined;
}

const nodesIn = (...values: readonly unknown[]): JsonObject[] => values.flat().filter(isObject);

/**
 * Every marked text, in the order of the value. The value may be of another shape than the schema,
 * as a body is before it is validated: what the schema does not describe is passed over, and of an
 * array no more than its `maxItems`.
 */
export function markedTexts(schema: object, value: unknown): MarkedText[] {
  const found = new Map<string, MarkedText>();

  const add = (path: readonly string[], text: unknown, rest: Omit<MarkedText, 'path' | 'text'>) => {
    if (typeof text === 'string') found.set(JSON.stringify(path), { path, text, ...rest });
  };
  const visit = (
    node: JsonObject,
    current: unknown,
    path: readonly string[],
    outer: Receiver | undefined,
  ): void => {
    const kind = node[marks.secretsOf];
    const receiver = typeof kind === 'string' ? { kind, path } : outer;
    const isSecret = node[marks.secret] === true;
    const isCalled = node[marks.calledAddress] === true;
    if (isSecret || isCalled) add(path, current, { isSecret, isCalled, receiver });

    const { allOf, anyOf, oneOf, if: condition, then: fits, else: otherwise } = node;
    for (const part of nodesIn(allOf, anyOf, oneOf, condition, fits, otherwise))
      visit(part, current, path, receiver);
    if (Array.isArray(current)) {
      const { items, maxItems } = node;
      const most = typeof maxItems === 'number' ? maxItems : current.length;
      for (const [index, item] of current.slice(0, most).entries())
        for (const part of nodesIn(items)) visit(part, item, [...path, String(index)], receiver);
      return;
    }
    if (!isObject(current)) return;
    const secretNames = node[marks.secretNames];
    for (const [name, member] of Object.entries(current)) {
      const inside = [...path, name];
      if (typeof secretNames === 'string' && new RegExp(secretNames, 'i').test(name))
        add(inside, member, { isSecret: true, isCalled: false, receiver });
      for (const part of schemasOf(node, name)) visit(part, member, inside, receiver);
    }
  };
  for (const node of nodesIn(schema)) visit(node, value, [], undefined);
  return [...found.values()];
}

/** The schemas that an object's schema has for a member of this name. */
function schemasOf({ properties, patternProperties }: JsonObject, name: string): JsonObject[] {
  const named = isObject(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [];
  const matched = Object.entries(isObject(patternProperties) ? patternProperties : {})
    .filter(([pattern]) => new RegExp(pattern, 'u').test(name))
    .map(([, part]) => part);
  return nodesIn(...named, ...matched);
}

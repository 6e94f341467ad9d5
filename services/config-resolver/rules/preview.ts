/** What another document would make of one effective configuration. */
import canonicalize from 'canonicalize';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { type Sources } from './layers.ts';
import { explainValues } from './explain.ts';

type Changes = ResultOf<'config-resolver.preview'>['effective'];
type Explained = ReturnType<typeof explainValues>['explain'][string];

/** The value, and all that layers and bounds say of it. */
const fingerprintOf = ({ value, layer, path, shadowed, enforced }: Explained): string =>
  canonicalize({
    value,
    layer,
    path,
    shadowed: shadowed.map((each) => [each.layer, each.path, each.value]),
    enforced,
  })!;

export function effectiveChanges(before: Sources, after: Sources): Changes {
  const { explain: was } = explainValues(before);
  const { explain: becomes } = explainValues(after);
  const keys = [...new Set([...Object.keys(was), ...Object.keys(becomes)])].toSorted();
  return keys.flatMap((key) => {
    const old = Object.hasOwn(was, key) ? was[key] : undefined;
    const next = Object.hasOwn(becomes, key) ? becomes[key] : undefined;
    if (old && next && fingerprintOf(old) === fingerprintOf(next)) return [];
    const isThere = next !== undefined && Object.hasOwn(next, 'value');
    return {
      key,
      ...(old && Object.hasOwn(old, 'value') && { before: old.value }),
      ...(isThere && { after: next.value }),
      decided_by: isThere ? next.layer : null,
      path: isThere ? next.path : null,
      enforced: next?.enforced !== undefined,
    };
  });
}

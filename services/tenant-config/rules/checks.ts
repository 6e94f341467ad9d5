/** Checks that several kinds of documents share. */
import type { Problem } from '../../../shared/errors.ts';
import type { ManagedTypes } from '../stores/managed-types.ts';

/** A document may repeat its id from the path, not contradict it. */
export function sameAsInPath<Field extends string>(
  field: Field,
  document: Readonly<Record<Field, string>>,
  address: Readonly<Record<Field, string>>,
): Problem[] {
  const isSame = document[field] === address[field];
  return isSame ? [] : [{ path: `/${field}`, message: `is not the ${field} of the path` }];
}

export function notAnActiveType(path: string, types: ManagedTypes): Problem {
  const names = types.map(({ service_type }) => service_type);
  return { path, message: `is not an active service type; there are ${names.join(', ')}` };
}

interface Scaling {
  readonly min_instances?: number;
  readonly max_instances?: number;
}

/** `path` leads to the object that holds both numbers. */
export function scalingOrder(
  { min_instances: min, max_instances: max }: Scaling,
  path = '',
): Problem[] {
  if (min === undefined || max === undefined || min <= max) return [];
  return [
    {
      path: `${path}/min_instances`,
      message: `is ${min}, which is more than max_instances (${max})`,
    },
  ];
}

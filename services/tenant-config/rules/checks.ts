import type { Problem } from '../../../shared/errors.ts';

/** A document may repeat its id from the path, not contradict it. */
export const samePath = (field: string, inBody: string, inPath: string): Problem[] =>
  inBody === inPath ? [] : [{ path: `/${field}`, message: `is not the ${field} of the path` }];

interface Scaling {
  readonly min_instances?: number | undefined;
  readonly max_instances?: number | undefined;
}

export const scalingOrder = (
  { min_instances: min, max_instances: max }: Scaling,
  path = '',
): Problem[] =>
  min === undefined || max === undefined || min <= max
    ? []
    : [
        {
          path: `${path}/min_instances`,
          message: `is ${min}, which is more than max_instances (${max})`,
        },
      ];

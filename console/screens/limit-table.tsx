/** Limits of automation as they hold or held, with who decided each. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { nameBeside } from '../format.ts';
import { Table } from '../lists.tsx';
import { Time, Value, Who } from '../inline.tsx';
import { limits } from '../known-values.ts';
import { layerTitles, type Explained } from './ladder.ts';

type Effective = Pick<ResultOf<'config-resolver.resolve'>, 'explain'>;

export const LimitTable = ({
  label,
  limits,
}: {
  readonly label: string;
  readonly limits: readonly (readonly [key: string, explained: Explained])[];
}): VNode => (
  <Table
    label={label}
    look="lines"
    items={limits}
    keyOf={([key]) => key}
    columns={[
      ['Limit', ([key]) => key],
      ['Value', ([, explained]) => <Value value={explained.value} />],
      [
        'Decided by',
        ([, explained]) =>
          explained.enforced ? (
            <span class="layer bound">guardrail</span>
          ) : (
            layerTitles[explained.layer]
          ),
      ],
      [
        { wide: 'Changed by' },
        ([, explained]) => (
          <Who id={explained.updated_by} name={nameBeside(explained, 'updated_by')} />
        ),
      ],
      [{ wide: 'When' }, ([, explained]) => <Time at={explained.updated_at} />],
    ]}
  />
);

export const explainedIn = ({ explain = {} }: Effective, key: string): Explained | undefined =>
  Object.hasOwn(explain, key) ? explain[key] : undefined;

/** Those that decide over automation first, in the order in which they do. */
export const limitsIn = (effective: Effective): [string, Explained][] =>
  limits.flatMap((key): [string, Explained][] => {
    const explained = explainedIn(effective, key);
    return explained ? [[key, explained]] : [];
  });

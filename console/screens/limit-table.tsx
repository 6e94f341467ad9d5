/** Limits of automation as they hold or held, with who decided each. */
import type { VNode } from 'preact';
import { nameBeside } from '../format.ts';
import { Table } from '../lists.tsx';
import { Time, Value, Who } from '../parts.tsx';
import { layerTitles, type Explained } from './ladder.ts';

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
    columns={['Limit', 'Value', 'Decided by', { wide: 'Changed by' }, { wide: 'When' }]}
  >
    {limits.map(([key, explained]) => (
      <tr key={key}>
        <th scope="row">{key}</th>
        <td>
          <Value value={explained.value} />
        </td>
        <td>
          {explained.enforced ? (
            <span class="layer bound">guardrail</span>
          ) : (
            layerTitles[explained.layer]
          )}
        </td>
        <td class="wide">
          <Who id={explained.updated_by} name={nameBeside(explained, 'updated_by')} />
        </td>
        <td class="wide">
          <Time at={explained.updated_at} />
        </td>
      </tr>
    ))}
  </Table>
);

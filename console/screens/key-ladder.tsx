/** Of one key: the ladder of the layers that could decide it, small and opened. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant, tenantShown } from '../address.ts';
import { get, withQuery } from '../api.ts';
import { shortJson } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { Button, Ends, Said, Time, Value, Who } from '../inline.tsx';
import { Columns } from '../parts.tsx';
import { hasRole, readsConfiguration, tenant } from '../session.ts';
import { glyphOf, layerTitles, titleOf, type Explained, type Rung, type Way } from './ladder.ts';

type Detail = ResultOf<'tenant-config.history.get'>;

/** Operators write service instances. */
const mayEdit = ({ layer }: Rung): boolean =>
  hasRole('tenant_admin', ...(layer === 'service_instance' ? (['operator'] as const) : []));

/**
 * The ladder as small as a word: a bar for each layer, the deciding one full, those that it shadows
 * hollow.
 */
export const Glyph = ({ rungs }: { readonly rungs: readonly Rung[] }): VNode => (
  <span class="glyph" aria-hidden="true">
    {rungs.map((rung) => (
      <i class={glyphOf(rung)} />
    ))}
  </span>
);

export const boundOwners = {
  type: "the key's type",
  platform: 'the platform',
  service_type: 'the service type',
  tenant: 'the tenant',
} as const;

/** What a bound demands, in words. */
function demandOf(rule: NonNullable<Explained['enforced']>['rule']): string {
  const { const: exactly, minimum, maximum, enum: oneOf, type } = rule;
  const parts = [
    'const' in rule && `always ${shortJson(exactly)}`,
    minimum !== undefined && `at least ${minimum}`,
    maximum !== undefined && `at most ${maximum}`,
    oneOf !== undefined && `one of ${oneOf.map((each) => shortJson(each, 40)).join(', ')}`,
    type !== undefined && `a value of type ${type}`,
  ];
  return parts.filter((part) => part !== false).join(', ');
}

export function Ladder({
  name,
  value,
  explained,
  rungs,
  onChange,
}: {
  readonly name: string;
  readonly value: unknown;
  readonly explained: Explained;
  readonly rungs: readonly Rung[];
  /** Absent where what is shown is of another moment. */
  readonly onChange?: ((way: Way, rung: Rung) => void) | undefined;
}): VNode {
  const { enforced, warned } = explained;
  const said = useSaid(rungs);
  return (
    <div class="ladder" role="group" tabindex={-1} aria-label={`Layers of ${name}`}>
      {enforced && (
        <p class="bound-line">
          <strong>
            {enforced.by === 'tenant' && readsConfiguration() ? (
              <a href={hrefOf(ofTenant('/documents/bounds'))}>Guardrail of the tenant</a>
            ) : (
              <>Guardrail of {boundOwners[enforced.by]}</>
            )}
            :
          </strong>{' '}
          <bdi>{demandOf(enforced.rule)}</bdi>
          {enforced.rule.reason && (
            <span>
              {' '}
              – <q>{enforced.rule.reason}</q>
            </span>
          )}
          .
          {enforced.asked && (
            <span>
              {' '}
              {layerTitles[enforced.asked.layer]} asks for <Value value={enforced.asked.value} />;{' '}
              <Value value={value} /> holds.
            </span>
          )}
        </p>
      )}
      {warned?.map(({ by, rule }) => (
        <p class="bound-line warns">
          <strong>Outside of a guardrail of {boundOwners[by]}, which only warns:</strong>{' '}
          <bdi>{demandOf(rule)}</bdi>.
        </p>
      ))}
      <table>
        <Columns
          titles={[
            'Layer',
            'Value',
            'State',
            'Changed by',
            'When',
            { number: 'Revision' },
            { unseen: 'Action' },
          ]}
        />
        <tbody>
          {rungs.map((rung) => (
            <RungRow
              key={`${rung.layer} ${rung.path ?? ''}`}
              rung={rung}
              said={said.get(rung.revision ?? 0)}
              onChange={onChange}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Written = Pick<Detail, 'reason' | 'until' | 'config_type' | 'resource_id'>;

/** The change in the history of its document, where it is undone. */
const changeOf = (revision: number, { config_type, resource_id: id }: Written): string => {
  const resource_id = id === tenantShown.value ? undefined : id;
  return withQuery(ofTenant('/history'), { config_type, resource_id, open: String(revision) });
};

/**
 * Why, and until when, by revision, of what the tenant's own layers say: from its history, for
 * whoever may read that.
 */
function useSaid(rungs: readonly Rung[]): ReadonlyMap<number, Written> {
  const id = tenant.value?.id;
  const mayRead = readsConfiguration();
  const own = mayRead ? rungs.filter(({ isEditable }) => isEditable) : [];
  const revisions = [...new Set(own.flatMap(({ revision }) => revision ?? []))];
  const { data } = useLoaded(`said ${id} ${revisions.join(' ')}`, async (aborted) => {
    const read = revisions.map(async (revision) => {
      const address = `/tenants/${id}/config/history/${revision}`;
      return [revision, await get<Written>(address, aborted)] as const;
    });
    return new Map(await Promise.all(read));
  });
  return data ?? new Map();
}

const stateTexts = {
  decides: 'decides',
  shadowed: 'shadowed',
  overruled: 'limited by guardrail',
  unset: 'not set',
} as const;

function RungRow({
  rung,
  said,
  onChange,
}: {
  readonly rung: Rung;
  readonly said: Written | undefined;
  /** Absent where what is shown is of another moment. */
  readonly onChange?: ((way: Way, rung: Rung) => void) | undefined;
}): VNode {
  const { state, value, path, updatedBy, updatedAt } = rung;
  const isSet = state !== 'unset';
  const revision = isSet ? rung.revision : undefined;
  const { reason = null, until } = said ?? {};
  return (
    <tr class={`rung ${state}`}>
      <th scope="row">
        <span class={`mark ${state}`} aria-hidden="true"></span>
        {titleOf(rung)}
      </th>
      <td>{isSet && <Value value={value} longest={200} />}</td>
      <td class="state">
        {stateTexts[state]}
        {until !== undefined && (
          <div>
            <Ends at={until} isInForce={onChange !== undefined} />
          </div>
        )}
      </td>
      <td>
        {isSet && <Who id={updatedBy} name={rung.updatedByName} />}
        {reason !== null && (
          <div class="fine">
            <Said>{reason}</Said>
          </div>
        )}
      </td>
      <td>{isSet && <Time at={updatedAt} />}</td>
      <td class="number">
        {said && revision ? <a href={hrefOf(changeOf(revision, said))}>{revision}</a> : revision}
      </td>
      <td class="action">
        {onChange && rung.isEditable && mayEdit(rung) && (
          <Button
            class="small"
            says="Edit…"
            title={`Changes ${path}`}
            onClick={() => onChange('edit', rung)}
          />
        )}{' '}
        {onChange && rung.isClearable && hasRole('tenant_admin') && (
          <Button
            class="small"
            says="Clear…"
            title={`Removes ${path}`}
            onClick={() => onChange('clear', rung)}
          />
        )}
      </td>
    </tr>
  );
}

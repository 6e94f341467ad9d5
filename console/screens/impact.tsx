/**
 * The blast radius of a change: for how many tenants effective values change, and which, before
 * anything is written.
 */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { contextText, localTime } from '../format.ts';
import { Table } from '../lists.tsx';
import { Below, Button, Value } from '../inline.tsx';
import { Columns, TableRegion } from '../parts.tsx';
import { decisionTitles } from './decided.ts';
import { layerTitles } from './ladder.ts';

type Planned = ResultOf<'global-config.plan'>;
export type Impact = Planned['impact'];
export type OverTime = NonNullable<Planned['over_time']>;

const counts = [
  ['changed', 'changed', 'an effective value changes'],
  ['shielded', 'not affected', 'what the platform says changes, and a layer above it decides'],
  ['clamped', 'limited by guardrail', 'a guardrail decides a value that changes'],
  ['invalid', 'would be rejected', 'stored documents that would newly be refused'],
] as const;

/** What recorded decisions and automations of the last days would have been. */
export function PastDecisions({
  decisions,
}: {
  readonly decisions: NonNullable<Impact['decisions']>;
}): VNode {
  const { total, changed, unknown, complete } = decisions;
  const titles: Readonly<Record<string, string>> = decisionTitles;
  const changes = Object.entries(changed).map(([change, count]) => {
    const [before, after] = change.split('→').map((each) => titles[each] ?? each);
    return `${count} ${before} would be ${after}`;
  });
  return (
    <p>
      Of {total} decisions of the last 30 days{' '}
      <strong>{changes.length === 0 ? 'none changes' : changes.join(', ')}</strong>.
      {unknown > 0 && ` ${unknown} could not be replayed.`}
      {!complete && ' There are more, for which there was no time.'}
    </p>
  );
}

/** Such as "Tenant risk limits". */
function layerOf(name: string | null): string {
  if (name === null) return 'nothing';
  const titles: Readonly<Record<string, string>> = layerTitles;
  return Object.hasOwn(titles, name) ? titles[name]! : name;
}

export function BlastRadius({
  impact,
  isComplete,
  onMore,
}: {
  readonly impact: Impact;
  readonly isComplete: boolean;
  /** Asks for the next page, where there is one. */
  readonly onMore?: (() => void) | undefined;
}): VNode {
  const { tenants, by_key: byKey, items } = impact;
  return (
    <section class="impact" aria-label="Blast radius">
      <h3>Blast radius</h3>
      {!isComplete && (
        <p class="warning">Not all tenants were looked at yet: these are those so far.</p>
      )}
      <dl class="counts">
        {counts.map(([name, title, about]) => (
          <div key={name} class={`${name} ${tenants[name] > 0 ? 'some' : ''}`}>
            <dt>{title}</dt>
            <dd>
              <strong class="number">{tenants[name]}</strong>{' '}
              {name !== 'invalid' && <span class="muted">of {tenants.total} tenants</span>}
              <div class="fine">{about}</div>
            </dd>
          </div>
        ))}
      </dl>
      {impact.decisions && <PastDecisions decisions={impact.decisions} />}
      {Object.keys(byKey).length > 0 && <ByKey byKey={byKey} />}
      {items.length > 0 && <Items items={items} />}
      {onMore && (
        <p>
          <Button class="small" says="Show more" onClick={onMore} />
        </p>
      )}
    </section>
  );
}

const effectTitles = {
  exhausted: ['exhausted', 'nothing is left of the budget'],
  frozen: ['frozen', 'the freeze is about automations that run or wait'],
  refuses: ['would be refused', 'automations that wait cost more than would be left'],
  warned: ['warned', 'the budget is at its share for a warning'],
  released: ['released', 'what held before no longer does'],
} as const;

const limitEffects = Object.keys(effectTitles) as (keyof typeof effectTitles)[];

/** What changed budgets and freezes mean in tenants. */
export function LimitsEffect({ overTime }: { readonly overTime: OverTime }): VNode {
  const { tenants, items, complete } = overTime;
  return (
    <section class="impact" aria-label="Limits over time">
      <h3>Limits over time</h3>
      {!complete && (
        <p class="warning">There are more tenants or automations than were looked at.</p>
      )}
      {items.length === 0 && <p>Nothing changes for automation that runs or waits.</p>}
      <dl class="counts">
        {limitEffects
          .filter((effect) => tenants[effect] > 0)
          .map((effect) => (
            <div key={effect} class="some">
              <dt>{effectTitles[effect][0]}</dt>
              <dd>
                <strong class="number">{tenants[effect]}</strong>{' '}
                <span class="muted">{tenants[effect] === 1 ? 'tenant' : 'tenants'}</span>
                <div class="fine">{effectTitles[effect][1]}</div>
              </dd>
            </div>
          ))}
      </dl>
      <Table
        label="Tenants and limits"
        items={items}
        empty={false}
        columns={[
          ['Tenant', (item) => <bdi title={item.tenant_id}>{item.tenant_name}</bdi>],
          [
            'Limit',
            (item) => (
              <>
                {item.limit} <bdi>{item.name}</bdi>
              </>
            ),
          ],
          [
            'Effect',
            (item) => (
              <>
                {effectTitles[item.effect][0]}
                <div class="fine">{detailOf(item)}</div>
              </>
            ),
          ],
          [{ number: 'Running' }, (item) => item.running],
          [{ number: 'Waiting' }, (item) => item.waiting],
        ]}
      />
    </section>
  );
}

function detailOf({ remaining, spent, held, from, until }: OverTime['items'][number]): string {
  if (spent !== undefined) {
    const left = remaining === undefined ? '' : `, ${remaining} left`;
    return `${spent} spent, ${held} held${left}`;
  }
  if (from === undefined) return '';
  const end = until ? ` until ${localTime(until)}` : ', without an end';
  return `from ${localTime(from)}${end}`;
}

/**
 * As many as a browser lays out without a pause that somebody feels; the values are listed page by
 * page.
 */
const mostKeys = 200;

function ByKey({ byKey }: { readonly byKey: Impact['by_key'] }): VNode {
  const keys = Object.entries(byKey);
  const others = keys.length - mostKeys;
  return (
    <Table
      label="By key"
      items={keys.slice(0, mostKeys)}
      keyOf={([key]) => key}
      columns={[
        ['Key', ([key]) => <bdi>{key}</bdi>],
        [{ number: 'Tenants changed' }, ([, { changed }]) => changed],
        [
          'Decided above by',
          ([, { shielded_by: by }]) => (
            <>
              {Object.entries(by).map(([layer, count]) => (
                <span key={layer} class="shield">
                  {layerOf(layer)}: <span class="number">{count}</span>{' '}
                </span>
              ))}
              {Object.keys(by).length === 0 && <span class="muted">–</span>}
            </>
          ),
        ],
      ]}
    >
      {others > 0 && (
        <tr key=" others">
          <td colspan={3} class="fine">
            and {others} more keys
          </td>
        </tr>
      )}
    </Table>
  );
}

function Items({ items }: { readonly items: Impact['items'] }): VNode {
  return (
    <TableRegion label="Values that change">
      <table class="changes">
        <Columns titles={['Tenant', 'Key', 'Before', 'After', 'Decided by']} />
        <tbody>
          {items.map((each, index) => (
            <tr key={index}>
              <th scope="row">
                <bdi title={each.tenant_id}>{each.tenant_name}</bdi>
                <Below>{contextText(each.context) || 'All services'}</Below>
              </th>
              <td>
                <bdi>{each.key}</bdi>
                {each.problem !== undefined && (
                  <div class="fine invalid">
                    <strong>newly refused:</strong> <bdi>{each.problem}</bdi>
                  </div>
                )}
              </td>
              <td class="before">
                <Value value={each.before} longest={100} />
              </td>
              <td class="after">
                <Value value={each.after} longest={100} />
              </td>
              <td>{layerOf(each.decided_by)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableRegion>
  );
}

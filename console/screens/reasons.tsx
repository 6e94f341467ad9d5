/** Why automation was refused or asks people, and the way to where each limit is looked at and changed. */
import type { VNode } from 'preact';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, ofTenant } from '../address.ts';
import { withQuery } from '../api.ts';
import type { Context } from '../format.ts';
import { Said, Time, Value } from '../inline.tsx';
import { Table } from '../lists.tsx';
import { readsConfiguration } from '../session.ts';
import { layerTitles } from './ladder.ts';

type Reason = ResultOf<'config-resolver.decide'>['reasons'][number];

function screenOf(rule: string, layer: Reason['layer'], place: Context): string {
  if (layer === 'freezes' || layer === 'budgets') return ofTenant(`/${layer}`);
  const { agent_type, service_id, service_type } = place;
  const key = rule === 'too_many_automations' ? 'max_concurrent_automations' : rule;
  const question = { agent_type, service_id, service_type, q: key, open: key };
  return withQuery(ofTenant('/effective'), question);
}

/** The rule, which leads to the layers of its limit, to the freezes or to the budgets. */
function Rule({
  reason: { rule, name, layer },
  place,
}: {
  readonly reason: Reason;
  readonly place: Context;
}): VNode {
  const isShown = readsConfiguration() || (layer !== 'freezes' && layer !== 'budgets');
  return (
    <>
      {isShown ? (
        <a href={hrefOf(screenOf(rule, layer, place))}>
          <code>{rule}</code>
        </a>
      ) : (
        <code>{rule}</code>
      )}{' '}
      <bdi>{name}</bdi>
    </>
  );
}

const timed: readonly Reason['rule'][] = [
  'freeze',
  'business_hours_only',
  'maintenance_windows_only',
];
const Asked = ({ rule, asked }: Reason): VNode =>
  timed.includes(rule) ? <Time at={String(asked)} /> : <Plain value={asked} />;

/** Amounts of budgets are text, so that they are exact. */
const Plain = ({ value }: { readonly value: unknown }): VNode =>
  typeof value === 'string' ? <bdi>{value}</bdi> : <Value value={value} />;

function Limit({ rule, limit, spent, held, resets_at: until }: Reason): VNode {
  if (rule === 'freeze')
    return (
      <>
        frozen{until && ' until '}
        {until && <Time at={until} />}
        {typeof limit === 'string' && <Said>{limit}</Said>}
      </>
    );
  return (
    <>
      <Plain value={limit} />
      {spent !== undefined && (
        <span class="fine">
          {' '}
          {spent} spent, {held} held
        </span>
      )}
    </>
  );
}

const sourceTitle = (layer: Reason['layer']): string => {
  if (layer === 'freezes') return 'Freezes';
  return layer === 'budgets' ? 'Budgets' : layerTitles[layer];
};

const Source = ({ layer, revision }: Reason): VNode => (
  <>
    {sourceTitle(layer)}
    {revision !== null && (
      <span class="fine">
        {' '}
        revision <span class="number">{revision}</span>
      </span>
    )}
  </>
);

/** The first one decides. */
export const ReasonTable = ({
  label,
  reasons,
  place,
  empty,
}: {
  readonly label: string;
  readonly reasons: readonly Reason[];
  readonly place: Context;
  readonly empty: string;
}): VNode => (
  <Table
    label={label}
    look="lines"
    items={reasons}
    empty={empty}
    columns={[
      [
        'Rule',
        (reason, index) => (
          <>
            <Rule reason={reason} place={place} /> {index === 0 && <span class="tag">decides</span>}
          </>
        ),
      ],
      ['Asked', (reason) => <Asked {...reason} />],
      ['Limit', (reason) => <Limit {...reason} />],
      ['Where it is from', (reason) => <Source {...reason} />],
    ]}
  />
);

/** The reason that decided, in a line. */
export const DecidingReason = ({
  reason,
  place,
}: {
  readonly reason: Reason;
  readonly place: Context;
}): VNode => (
  <>
    <Rule reason={reason} place={place} />
    <div class="fine">
      {reason.rule !== 'freeze' && (
        <>
          asked <Asked {...reason} />, limit{' '}
        </>
      )}
      <Limit {...reason} /> · {sourceTitle(reason.layer)}
    </div>
  </>
);

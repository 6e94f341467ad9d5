/** The gates of a stage, as they are typed: what has to pass before the next stage begins. */
import type { VNode } from 'preact';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import { boundTo, Field, Select, titled } from '../fields.tsx';
import { RowButton } from '../lists.tsx';
import { Button } from '../inline.tsx';

type Gate = ParamsOf<'global-config.rollouts.create'>['body']['stages'][number]['gate'][number];
type Count = Extract<Gate, { readonly type: 'figures' }>['figure'];

/** Texts until they are sent; those of other types stay while somebody looks around. */
export interface TypedGate {
  readonly type: Gate['type'];
  readonly figure: Count;
  readonly rule: string;
  readonly tolerance: string;
  readonly sample: string;
  readonly url: string;
  readonly secret: string;
  readonly query: string;
  readonly most: string;
  readonly least: string;
}

export const manualGate: TypedGate = {
  type: 'manual',
  figure: 'failed',
  rule: '',
  tolerance: '2',
  sample: '50',
  url: '',
  secret: '',
  query: '',
  most: '',
  least: '',
};

const types: Readonly<Record<Gate['type'], string>> = {
  manual: 'somebody advances it',
  figures: 'counts of its tenants, beside all others',
  webhook: 'a webhook says so',
  prometheus: 'a query to Prometheus',
};
const countTitles: Readonly<Record<Count, string>> = {
  denied: 'automations that were denied',
  failed: 'automations that failed',
  refused: 'writes that rules refused',
};

export function gateOf(typed: TypedGate): Gate {
  const { type, figure, rule, url, secret, query, most, least } = typed;
  switch (type) {
    case 'manual':
      return { type };
    case 'figures':
      return {
        type,
        figure,
        ...(figure === 'denied' && rule.trim() !== '' && { rule: rule.trim() }),
        tolerance_percent: Number(typed.tolerance),
        min_sample: Number(typed.sample),
      };
    case 'webhook':
      return { type, url: url.trim(), secret };
    case 'prometheus':
      return {
        type,
        query: query.trim(),
        ...(most !== '' && { at_most: Number(most) }),
        ...(least !== '' && { at_least: Number(least) }),
      };
  }
}

interface GateProperties {
  readonly name: string;
  readonly gate: TypedGate;
  readonly onGate: (gate: TypedGate) => void;
}

export const GatesFields = ({
  name,
  gates,
  most,
  onGates,
}: {
  /** Of the stage, within the form. */
  readonly name: string;
  readonly gates: readonly TypedGate[];
  readonly most: number;
  readonly onGates: (gates: readonly TypedGate[]) => void;
}): VNode => (
  <>
    {gates.map((gate, index) => (
      <div class="gate" key={index}>
        <OneGate
          name={`${name}-${index}`}
          gate={gate}
          onGate={(next) => onGates(gates.with(index, next))}
        />
        <RowButton
          says="Remove"
          of={`gate ${index + 1}`}
          onClick={() => onGates(gates.toSpliced(index, 1))}
        />
      </div>
    ))}
    {gates.length === 0 && <p class="fine">No gate: the next stage begins once it was watched.</p>}
    <Button
      class="small"
      says="Add a gate"
      disabled={gates.length >= most}
      onClick={() => onGates([...gates, manualGate])}
    />
  </>
);

function OneGate({ name, gate, onGate }: GateProperties): VNode {
  const field = boundTo(gate, (change) => onGate({ ...gate, ...change }), `-${name}`);
  return (
    <>
      <Select label="Gate" options={titled(types)} {...field('type')} name={`gate-${name}`} />
      {gate.type === 'figures' && <CountsFields gate={gate} field={field} />}
      {gate.type === 'webhook' && <WebhookFields field={field} />}
      {gate.type === 'prometheus' && <PrometheusFields gate={gate} field={field} />}
    </>
  );
}

type Bound = ReturnType<typeof boundTo<TypedGate>>;

const CountsFields = ({
  gate,
  field,
}: {
  readonly gate: TypedGate;
  readonly field: Bound;
}): VNode => (
  <>
    <Select label="Count" options={titled(countTitles)} {...field('figure')} />
    {gate.figure === 'denied' && (
      <Field label="Only by the rule" maxlength={64} placeholder="any rule" {...field('rule')} />
    )}
    <Field
      label="Percentage points more than the others, at most"
      type="number"
      min="0"
      max="100"
      required
      {...field('tolerance')}
    />
    <Field
      label="Waits for so many on each side"
      type="number"
      min="1"
      max="10000"
      required
      {...field('sample')}
    />
  </>
);

const WebhookFields = ({ field }: { readonly field: Bound }): VNode => (
  <>
    <Field
      label="Address"
      required
      maxlength={2048}
      pattern="https?://.+"
      placeholder="https://health.example/rollouts"
      spellcheck={false}
      hint='Asked by POST; answers {"result": "pass"}, "wait" or "fail"'
      {...field('url')}
    />
    <Field
      label="Secret"
      type="password"
      required
      maxlength={500}
      autocomplete="new-password"
      hint="Requests are signed with it"
      {...field('secret')}
    />
  </>
);

const PrometheusFields = ({
  gate,
  field,
}: {
  readonly gate: TypedGate;
  readonly field: Bound;
}): VNode => (
  <>
    <Field
      label="Query"
      required
      maxlength={2000}
      placeholder="sum(rate(checkout_errors_total[5m]))"
      spellcheck={false}
      hint="With one number as its result; anything else waits"
      {...field('query')}
    />
    <Field
      label="Fails above"
      // Of two limits one is needed.
      required={gate.least === ''}
      pattern="-?[0-9]+(\.[0-9]+)?"
      placeholder="0.5"
      {...field('most')}
    />
    <Field
      label="Fails below"
      pattern="-?[0-9]+(\.[0-9]+)?"
      placeholder="no limit"
      {...field('least')}
    />
  </>
);

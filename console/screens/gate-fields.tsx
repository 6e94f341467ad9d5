/** The gates of a stage, as they are typed: what has to pass before the next stage begins. */
import type { VNode } from 'preact';
import type { ParamsOf } from '../../shared/contracts/index.ts';
import { Field, Select, titled } from '../fields.tsx';
import { RowButton } from '../lists.tsx';
import { Button } from '../inline.tsx';

type Gate = ParamsOf<'global-config.rollouts.create'>['body']['stages'][number]['gate'][number];
type Figure = Extract<Gate, { readonly type: 'figures' }>['figure'];

/** Texts until they are sent; those of other types stay while somebody looks around. */
export interface TypedGate {
  readonly type: Gate['type'];
  readonly figure: Figure;
  readonly rule: string;
  readonly tolerance: string;
  readonly sample: string;
  readonly url: string;
  readonly secret: string;
  readonly query: string;
  readonly atMost: string;
  readonly atLeast: string;
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
  atMost: '',
  atLeast: '',
};

const types: Readonly<Record<Gate['type'], string>> = {
  manual: 'somebody advances it',
  figures: 'figures of its tenants, beside all others',
  webhook: 'a webhook says so',
  prometheus: 'a query to Prometheus',
};
const figures: Readonly<Record<Figure, string>> = {
  denied: 'automations that were denied',
  failed: 'automations that failed',
  refused: 'writes that rules refused',
};

export function gateOf(typed: TypedGate): Gate {
  const { type, figure, rule, url, secret, query, atMost, atLeast } = typed;
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
        ...(atMost !== '' && { at_most: Number(atMost) }),
        ...(atLeast !== '' && { at_least: Number(atLeast) }),
      };
  }
}

interface GateProperties {
  readonly name: string;
  readonly gate: TypedGate;
  readonly onGate: (gate: TypedGate) => void;
}

export function GatesFields({
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
}): VNode {
  return (
    <>
      {gates.map((gate, index) => (
        <div class="gate" key={index}>
          <OneGate
            name={`${name}-${index}`}
            gate={gate}
            onGate={(next) => onGates(gates.map((each, at) => (at === index ? next : each)))}
          />
          <RowButton
            says="Remove"
            of={`gate ${index + 1}`}
            onClick={() => onGates(gates.filter((_gate, at) => at !== index))}
          />
        </div>
      ))}
      {gates.length === 0 && (
        <p class="fine">No gate: the next stage begins once it was watched.</p>
      )}
      <Button
        class="small"
        says="Add a gate"
        disabled={gates.length >= most}
        onClick={() => onGates([...gates, manualGate])}
      />
    </>
  );
}

function OneGate({ name, gate, onGate }: GateProperties): VNode {
  return (
    <>
      <Select
        label="Gate"
        name={`gate-${name}`}
        value={gate.type}
        options={titled(types)}
        onValue={(type) => onGate({ ...gate, type })}
      />
      {gate.type === 'figures' && <FiguresFields name={name} gate={gate} onGate={onGate} />}
      {gate.type === 'webhook' && <WebhookFields name={name} gate={gate} onGate={onGate} />}
      {gate.type === 'prometheus' && <PrometheusFields name={name} gate={gate} onGate={onGate} />}
    </>
  );
}

const FiguresFields = ({ name, gate, onGate }: GateProperties): VNode => (
  <>
    <Select
      label="Figure"
      name={`figure-${name}`}
      value={gate.figure}
      options={titled(figures)}
      onValue={(figure) => onGate({ ...gate, figure })}
    />
    {gate.figure === 'denied' && (
      <Field
        label="Only by the rule"
        name={`rule-${name}`}
        value={gate.rule}
        maxlength={64}
        placeholder="any rule"
        onValue={(rule) => onGate({ ...gate, rule })}
      />
    )}
    <Field
      label="Percentage points more than the others, at most"
      name={`tolerance-${name}`}
      type="number"
      min="0"
      max="100"
      value={gate.tolerance}
      required
      onValue={(tolerance) => onGate({ ...gate, tolerance })}
    />
    <Field
      label="Waits for so many on each side"
      name={`sample-${name}`}
      type="number"
      min="1"
      max="10000"
      value={gate.sample}
      required
      onValue={(sample) => onGate({ ...gate, sample })}
    />
  </>
);

const WebhookFields = ({ name, gate, onGate }: GateProperties): VNode => (
  <>
    <Field
      label="Address"
      name={`url-${name}`}
      value={gate.url}
      required
      maxlength={2048}
      pattern="https?://.+"
      placeholder="https://health.example/rollouts"
      spellcheck={false}
      hint='Asked by POST; answers {"result": "pass"}, "wait" or "fail"'
      onValue={(url) => onGate({ ...gate, url })}
    />
    <Field
      label="Secret"
      name={`secret-${name}`}
      type="password"
      value={gate.secret}
      required
      maxlength={500}
      autocomplete="new-password"
      hint="Requests are signed with it"
      onValue={(secret) => onGate({ ...gate, secret })}
    />
  </>
);

const PrometheusFields = ({ name, gate, onGate }: GateProperties): VNode => (
  <>
    <Field
      label="Query"
      name={`query-${name}`}
      value={gate.query}
      required
      maxlength={2000}
      placeholder="sum(rate(checkout_errors_total[5m]))"
      spellcheck={false}
      hint="With one number as its result; anything else waits"
      onValue={(query) => onGate({ ...gate, query })}
    />
    <Field
      label="Fails above"
      name={`most-${name}`}
      value={gate.atMost}
      // Of two limits one is needed.
      required={gate.atLeast === ''}
      pattern="-?[0-9]+(\.[0-9]+)?"
      placeholder="0.5"
      onValue={(atMost) => onGate({ ...gate, atMost })}
    />
    <Field
      label="Fails below"
      name={`least-${name}`}
      value={gate.atLeast}
      pattern="-?[0-9]+(\.[0-9]+)?"
      placeholder="no limit"
      onValue={(atLeast) => onGate({ ...gate, atLeast })}
    />
  </>
);

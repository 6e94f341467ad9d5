/** Planning a rollout, of a plan that was looked at or of a change set that was approved. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { go } from '../address.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field, ReasonField, Select, titled } from '../fields.tsx';
import { gateOf, GatesFields, manualGate, type TypedGate } from './gate-fields.tsx';
import { Button } from '../inline.tsx';

/** As the server demands of a stage. */
const mostGates = 10;

type Body = ParamsOf<'global-config.rollouts.create'>['body'];
type Rollout = ResultOf<'global-config.rollouts.create'>;

interface Row {
  readonly percent: string;
  readonly minutes: string;
  readonly gates: readonly TypedGate[];
}

const firstRows: readonly Row[] = [
  { percent: '5', minutes: '60', gates: [manualGate] },
  { percent: '25', minutes: '60', gates: [] },
  { percent: '100', minutes: '60', gates: [] },
];

const stageOf = ({ percent, minutes, gates }: Row): Body['stages'][number] => ({
  percent: Number(percent),
  bake_minutes: Number(minutes),
  gate: gates.map(gateOf),
});

export function NewRollout({
  source,
  title: given,
  reason: known,
  onClose,
  onPlanned,
}: {
  readonly source: Pick<Body, 'items' | 'changeset_id' | 'digest'>;
  readonly title: string;
  readonly reason: string;
  readonly onClose: () => void;
  readonly onPlanned?: () => void;
}): VNode {
  const [title, setTitle] = useState(given);
  const [reason, setReason] = useState(known);
  const [rows, setRows] = useState(firstRows);
  const [onFail, setOnFail] = useState<'hold' | 'revert'>('hold');
  const put = (index: number, change: Partial<Row>): void =>
    setRows(rows.map((row, at) => (at === index ? { ...row, ...change } : row)));
  const plan = async (): Promise<void> => {
    const stages = rows.map(stageOf);
    const body: Body = { ...source, title: title.trim(), reason: reason.trim(), stages };
    const made = await call<Rollout>('POST', '/config/rollouts', {
      body: { ...body, on_fail: onFail },
    });
    onPlanned?.();
    go(`/platform/rollouts/${made.body.id}`);
  };
  return (
    <FormDialog title="Roll out in stages" verb="Plan the rollout" work={plan} onClose={onClose}>
      <p>
        Nothing changes until somebody begins it. The next stage begins once a stage was watched for
        so long and all of its gates pass; no answer is a wait.
      </p>
      <Field label="Title" name="title" value={title} required maxlength={200} onValue={setTitle} />
      <ReasonField value={reason} onValue={setReason} />
      {rows.map((row, index) => (
        <fieldset class="stage" key={index}>
          <legend>Stage {index + 1}</legend>
          <Field
            label="Percent of tenants"
            name={`percent-${index}`}
            type="number"
            min="0"
            max="100"
            value={row.percent}
            required
            onValue={(percent) => put(index, { percent })}
          />
          <Field
            label="Watched for minutes"
            name={`minutes-${index}`}
            type="number"
            min="0"
            max="43200"
            value={row.minutes}
            required
            onValue={(minutes) => put(index, { minutes })}
          />
          <GatesFields
            name={String(index)}
            gates={row.gates}
            most={mostGates}
            onGates={(gates) => put(index, { gates })}
          />
        </fieldset>
      ))}
      <p class="buttons">
        <Button
          class="small"
          says="One stage more"
          disabled={rows.length >= 20}
          onClick={() => setRows([rows[0]!, ...rows])}
        />
        <Button
          class="small"
          says="One less"
          disabled={rows.length < 2}
          onClick={() => setRows(rows.slice(1))}
        />
      </p>
      <Select
        label="Where a gate fails"
        name="on_fail"
        value={onFail}
        options={titled({ hold: 'hold it at its stage', revert: 'revert it' })}
        onValue={setOnFail}
      />
    </FormDialog>
  );
}

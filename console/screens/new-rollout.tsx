/** Planning a rollout, of a plan that was looked at or of a change set that was approved. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { go } from '../address.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { boundTo, Field, ReasonField, Select, titled, useFields } from '../fields.tsx';
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

/** Guardrails, budgets, freezes and policies are of no layer: they reach all tenants at once. */
export const canBeStaged = (items: readonly { readonly path: string }[]): boolean =>
  items.every(({ path }) => /^\/config\/(?:global|service-types)\//.test(path));

export function NewRollout({
  source,
  title,
  reason,
  onClose,
  onPlanned,
}: {
  readonly source: Pick<Body, 'items' | 'changeset_id' | 'digest'>;
  readonly title: string;
  readonly reason: string;
  readonly onClose: () => void;
  readonly onPlanned?: () => void;
}): VNode {
  const { typed, field } = useFields<Required<Pick<Body, 'title' | 'reason' | 'on_fail'>>>({
    title,
    reason,
    on_fail: 'hold',
  });
  const [rows, setRows] = useState(firstRows);
  const put = (index: number, change: Partial<Row>): void =>
    setRows(rows.with(index, { ...rows[index]!, ...change }));
  const plan = async (): Promise<void> => {
    const stages = rows.map(stageOf);
    const said = { ...typed, title: typed.title.trim(), reason: typed.reason.trim() };
    const body: Body = { ...source, ...said, stages };
    const made = await call<Rollout>('POST', '/config/rollouts', { body });
    onPlanned?.();
    go(`/platform/rollouts/${made.body.id}`);
  };
  return (
    <FormDialog title="Roll out in stages" verb="Plan the rollout" work={plan} onClose={onClose}>
      <p>
        Nothing changes until somebody begins it. The next stage begins once a stage was watched for
        so long and all of its gates pass; no answer is a wait.
      </p>
      <Field label="Title" required maxlength={200} {...field('title')} />
      <ReasonField {...field('reason')} />
      {rows.map((row, index) => (
        <StageFields key={index} index={index} row={row} onRow={(change) => put(index, change)} />
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
          says="One stage less"
          disabled={rows.length < 2}
          onClick={() => setRows(rows.slice(1))}
        />
      </p>
      <Select
        label="Where a gate fails"
        options={titled({ hold: 'hold it at its stage', revert: 'revert it' })}
        {...field('on_fail')}
      />
    </FormDialog>
  );
}

function StageFields({
  index,
  row,
  onRow,
}: {
  readonly index: number;
  readonly row: Row;
  readonly onRow: (change: Partial<Row>) => void;
}): VNode {
  const field = boundTo(row, onRow, `-${index}`);
  return (
    <fieldset class="stage">
      <legend>Stage {index + 1}</legend>
      <Field
        label="Percent of tenants"
        type="number"
        min="0"
        max="100"
        required
        {...field('percent')}
      />
      <Field
        label="Watched for minutes"
        type="number"
        min="0"
        max="43200"
        required
        {...field('minutes')}
      />
      <GatesFields
        name={String(index)}
        gates={row.gates}
        most={mostGates}
        onGates={(gates) => onRow({ gates })}
      />
    </fieldset>
  );
}

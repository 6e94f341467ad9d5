/** Planning a rollout, of a plan that was looked at or of a change set that was approved. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ParamsOf, ResultOf } from '../../shared/contracts/index.ts';
import { go } from '../address.ts';
import { call } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { Field } from '../fields.tsx';

type Body = ParamsOf<'global-config.rollouts.create'>['body'];
type Rollout = ResultOf<'global-config.rollouts.create'>;

interface Row {
  readonly percent: string;
  readonly minutes: string;
  readonly isManual: boolean;
}

const firstRows: readonly Row[] = [
  { percent: '5', minutes: '60', isManual: true },
  { percent: '25', minutes: '60', isManual: false },
  { percent: '100', minutes: '60', isManual: false },
];

const stageOf = ({ percent, minutes, isManual }: Row): Body['stages'][number] => ({
  percent: Number(percent),
  bake_minutes: Number(minutes),
  gate: isManual ? [{ type: 'manual' }] : [],
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
        Nothing changes until somebody begins it. Gates that ask figures, a webhook or Prometheus
        are for the API and <code>strata rollouts</code>.
      </p>
      <Field label="Title" name="title" value={title} required maxlength={200} onValue={setTitle} />
      <Field
        label="Reason"
        name="reason"
        value={reason}
        required
        maxlength={500}
        onValue={setReason}
      />
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
          <label class="check">
            <input
              type="checkbox"
              checked={row.isManual}
              onChange={() => put(index, { isManual: !row.isManual })}
            />
            somebody advances it
          </label>
        </fieldset>
      ))}
      <p class="buttons">
        <button
          type="button"
          class="small"
          disabled={rows.length >= 20}
          onClick={() => setRows([rows[0]!, ...rows])}
        >
          One stage more
        </button>
        <button
          type="button"
          class="small"
          disabled={rows.length < 2}
          onClick={() => setRows(rows.slice(1))}
        >
          One less
        </button>
      </p>
      <label>
        Where a gate fails
        <select
          name="on_fail"
          value={onFail}
          onChange={({ currentTarget }) => setOnFail(currentTarget.value as 'hold' | 'revert')}
        >
          <option value="hold">hold it at its stage</option>
          <option value="revert">revert it</option>
        </select>
      </label>
    </FormDialog>
  );
}

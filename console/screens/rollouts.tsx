/** Rollouts: changes of the platform that reach tenants in stages, how far each is, and its steps. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { ResultOf } from '../../shared/contracts/index.ts';
import { hrefOf, parameter, wantedText } from '../address.ts';
import { call, withQuery } from '../api.ts';
import { FormDialog } from '../dialogs.tsx';
import { anyOf, FilterField, Filters, fitting, ReasonField, SelectField } from '../fields.tsx';
import { rolloutStates } from '../known-values.ts';
import { ShowMore, Table, Waiting } from '../lists.tsx';
import { lookAgainMs, useEvery, useLive, useGet } from '../loading.ts';
import { usePages } from '../pages.ts';
import { Button, FineTime, Named, State, StateNow, Time, Who } from '../inline.tsx';
import { Changes, Fact, Heading, Section } from '../parts.tsx';
import type { ScreenProperties } from './screen.ts';

type Rollout = ResultOf<'global-config.rollouts.get'>;
type Stage = Rollout['stages'][number];
type Gate = Stage['gate'][number];
type Answer = Rollout['answers'][number];

export const Rollouts = ({ rest: [id] }: ScreenProperties): VNode =>
  id === undefined ? <List /> : <OneRollout key={id} id={id} />;

function List(): VNode {
  const state = parameter('state');
  const wanted = wantedText();
  const address = withQuery('/config/rollouts', { state });
  const { items, isComplete, problem, more, reload } = usePages<Rollout>(address, wanted !== '');
  useLive(reload);
  const shown = fitting(items, ({ title, reason }) => `${title} ${reason}`);
  return (
    <section>
      <Heading title="Rollouts" about="Changes of the platform that reach some tenants first" />
      <Filters class="question two">
        <SelectField name="state" label="State" options={anyOf(rolloutStates, 'all')} />
        <FilterField placeholder="title or reason" />
      </Filters>
      <Waiting data={items} problem={problem} retry={reload} />
      <Table
        label="Rollouts"
        items={shown}
        empty={
          isComplete && (
            <>
              There are none. A <a href={hrefOf('/platform/plan')}>plan</a>, or a change set that is
              approved, is rolled out in stages.
            </>
          )
        }
        columns={[
          [
            'Rollout',
            (each) => (
              <Named to={`/platform/rollouts/${each.id}`} below={each.reason}>
                {each.title}
              </Named>
            ),
          ],
          ['State', (each) => <State state={each.state} />],
          [
            'Stage',
            (each) =>
              each.stage === null ? 'none yet' : `${each.stage + 1} of ${each.stages.length}`,
          ],
          ['Changed', (each) => <Time at={each.updated_at} />],
        ]}
      />
      {items && !isComplete && <ShowMore onClick={more} />}
    </section>
  );
}

const isUnderWay = ({ state }: Rollout): boolean => ['planned', 'running', 'held'].includes(state);

function OneRollout({ id }: { readonly id: string }): VNode {
  const address = `/config/rollouts/${encodeURIComponent(id)}`;
  const { data, problem, reload } = useGet<Rollout>(address);
  useLive(reload);
  // Gates are asked all the while.
  useEvery(lookAgainMs, () => {
    if (!data || isUnderWay(data)) reload();
  });
  return (
    <section class="rollout">
      <Heading title={data?.title ?? 'Rollout'}>
        <StateNow state={data?.state} />
      </Heading>
      <Waiting
        data={data}
        problem={problem}
        retry={reload}
        unknown="There is no rollout with this id."
      />
      {data && (
        <>
          <p class="prose">
            <bdi>{data.reason}</bdi>
          </p>
          {data.note !== null && (
            <p class="notice" role="status">
              <strong>Note:</strong> <bdi>{data.note}</bdi>
            </p>
          )}
          <Stages rollout={data} />
          <Steps rollout={data} address={address} onDone={reload} />
          <Facts rollout={data} />
          <Cohort rollout={data} />
          <Answers rollout={data} />
          <Section title="What changes">
            <Changes
              changes={data.changes.map((change) => ({
                ...change,
                path: `${change.resource} ${change.path}`,
              }))}
            />
          </Section>
        </>
      )}
    </section>
  );
}

/** Where a stage is, as the rollout goes through them. */
function standingOf({ state, stage }: Rollout, index: number): 'past' | 'now' | 'ahead' {
  if (state === 'completed') return 'past';
  if (stage === null || state === 'reverted' || state === 'superseded' || index > stage)
    return 'ahead';
  return index === stage ? 'now' : 'past';
}

const standings = { past: 'has it', now: 'it is here', ahead: 'not yet' } as const;

/** Such as "25 % of tenants" or "2 tenants by name". */
function whoIn({ percent, tenants = [] }: Stage): string {
  const named = tenants.length > 0 ? `${tenants.length} by name` : '';
  const share = percent === undefined ? '' : `${percent} % of all`;
  return [share, named].filter((each) => each !== '').join(' and ');
}

/** What is shown of each, beside its number. */
const mostLabelled = 8;
const picture = { width: 320, height: 120, bottom: 100, gap: 4 } as const;

function Stages({ rollout }: { readonly rollout: Rollout }): VNode {
  const { stages } = rollout;
  const at = stages.findIndex((_stage, index) => standingOf(rollout, index) === 'now');
  const says =
    at < 0
      ? `${stages.length} stages, of which ${rollout.state === 'completed' ? 'all are done' : 'none is under way'}`
      : `Stage ${at + 1} of ${stages.length}: ${whoIn(stages[at]!)}`;
  const width = picture.width / stages.length;
  return (
    <Section title="Stages">
      <svg
        class="stages-picture"
        viewBox={`0 0 ${picture.width} ${picture.height}`}
        role="img"
        aria-label={says}
      >
        {stages.map((stage, index) => {
          // Of a few tenants there is something to see, too.
          const height = Math.max(6, ((stage.percent ?? 0) / 100) * 80);
          const middle = (index + 0.5) * width;
          return (
            <g key={index}>
              <rect
                class={standingOf(rollout, index)}
                x={index * width + picture.gap / 2}
                y={picture.bottom - height}
                width={width - picture.gap}
                height={height}
                rx="2"
              />
              {stages.length <= mostLabelled && (
                <text x={middle} y={picture.bottom - height - 4}>
                  {stage.percent === undefined ? `${stage.tenants?.length}` : `${stage.percent} %`}
                </text>
              )}
              <text class="muted" x={middle} y={picture.height - 6}>
                {index + 1}
              </text>
            </g>
          );
        })}
      </svg>
      <Table
        label="Stages"
        items={stages}
        columns={[
          ['Stage', (_stage, index) => `Stage ${index + 1}`],
          ['Tenants', (stage) => <span title={stage.tenants?.join(' ')}>{whoIn(stage)}</span>],
          ['Watched', (stage) => <>{stage.bake_minutes} min</>],
          [
            'Gates',
            (stage) =>
              stage.gate.length === 0 ? 'time alone' : stage.gate.map(gateTitle).join(', '),
          ],
          [
            'Now',
            (_row, index) => (
              <>
                {standings[standingOf(rollout, index)]}
                {standingOf(rollout, index) === 'now' && rollout.phase !== null && (
                  <span class="muted">, {rollout.phase}</span>
                )}
              </>
            ),
          ],
        ]}
      />
    </Section>
  );
}

function gateTitle(gate: Gate): string {
  switch (gate.type) {
    case 'manual':
      return 'somebody advances it';
    case 'figures':
      return `${gate.figure} automations${gate.rule === undefined ? '' : ` by ${gate.rule}`}`;
    case 'webhook':
      return `webhook ${new URL(gate.url).host}`;
    case 'prometheus':
      return 'a Prometheus query';
  }
}

function Facts({ rollout }: { readonly rollout: Rollout }): VNode {
  const { on_fail: onFail, gates_until: until, changeset_id: set } = rollout;
  return (
    <dl class="facts">
      <Fact name="Planned by">
        <Who id={rollout.created_by} name={rollout.created_by_name ?? undefined} />{' '}
        <FineTime at={rollout.created_at} />
      </Fact>
      <Fact name="Last step by">
        <Who id={rollout.updated_by} name={rollout.updated_by_name ?? undefined} />{' '}
        <FineTime at={rollout.updated_at} />
      </Fact>
      <Fact name="This stage began" says={<Time at={rollout.stage_at} />} />
      <Fact name="Where a gate fails">
        {onFail === 'revert' ? 'it is reverted' : 'it is held'}
        {until !== null && (
          <>
            , also where they still wait <Time at={until} />
          </>
        )}
      </Fact>
      {set !== null && (
        <Fact name="Made of">
          <a href={hrefOf(`/platform/change-sets/${set}`)}>a change set</a>
        </Fact>
      )}
    </dl>
  );
}

const gateOf = ({ stages }: Rollout, { stage, gate }: Answer): Gate => stages[stage]!.gate[gate]!;

/** What became of automations on both sides, as the gates that count them said it last. */
function Cohort({ rollout }: { readonly rollout: Rollout }): VNode | null {
  const counted = rollout.answers.filter((answer) => gateOf(rollout, answer).type === 'figures');
  const newest = counted.filter(
    (answer, index) =>
      counted.findIndex(({ stage, gate }) => stage === answer.stage && gate === answer.gate) ===
      index,
  );
  if (newest.length === 0) return null;
  return (
    <Section title="Cohort beside the rest">
      <Table
        label="Cohort beside the rest"
        items={newest}
        keyOf={(answer) => `${answer.stage} ${answer.gate}`}
        columns={[
          ['Stage', (answer) => `Stage ${answer.stage + 1}`],
          ['Tenants that have it, and the rest', (answer) => <bdi>{answer.detail}</bdi>],
          ['When', (answer) => <Time at={answer.at} />],
        ]}
      />
    </Section>
  );
}

function Answers({ rollout }: { readonly rollout: Rollout }): VNode {
  const { answers } = rollout;
  return (
    <Section title="Answers of gates">
      <Table
        label="Answers of gates"
        items={answers}
        keyOf={(answer) => `${answer.stage} ${answer.gate} ${answer.since}`}
        empty="No gate was asked yet."
        columns={[
          ['Gate', (answer) => `Stage ${answer.stage + 1}: ${gateTitle(gateOf(rollout, answer))}`],
          ['Answer', (answer) => <strong class={`gate-${answer.result}`}>{answer.result}</strong>],
          ['Detail', (answer) => <bdi>{answer.detail}</bdi>],
          ['Since', (answer) => <Time at={answer.since} />],
          ['Last', (answer) => <Time at={answer.at} />],
        ]}
      />
    </Section>
  );
}

interface Step {
  readonly name: 'advance' | 'hold' | 'resume' | 'revert';
  readonly says: string;
  readonly about: string;
  /** Beside the reason. */
  readonly body?: object;
  readonly needsReason: boolean;
  readonly isDangerous?: boolean;
}

/** What can be done with it now, the one that continues it first. */
function stepsOf(rollout: Rollout): Step[] {
  const { state, stage, stages, phase } = rollout;
  const isLast = stage === stages.length - 1;
  const next = stage === null ? stages[0]! : stages[stage + 1];
  const advance: Step = {
    name: 'advance',
    says: stage === null ? 'Begin' : isLast ? 'Complete' : 'Advance',
    about: next
      ? `The next stage begins: ${whoIn(next)} have it, once this is answered.`
      : 'All tenants have it, and the documents are written.',
    body: { stage },
    needsReason: phase === 'baking',
  };
  const atOnce: Step = {
    name: 'advance',
    says: 'All at once',
    about: 'All tenants have it now, whatever stages are left.',
    body: { stage, all_at_once: true },
    needsReason: true,
    isDangerous: true,
  };
  const hold: Step = {
    name: 'hold',
    says: 'Hold',
    about: 'It stays at its stage until somebody resumes it, advances it or takes it back.',
    needsReason: true,
  };
  const resume: Step = {
    name: 'resume',
    says: 'Resume',
    about: 'It continues; its stage is watched again from now on.',
    needsReason: true,
  };
  const revert: Step = {
    name: 'revert',
    says: 'Revert',
    about: 'All tenants have what was before, in one write.',
    needsReason: true,
    isDangerous: true,
  };
  switch (state) {
    case 'planned':
      return [advance, ...(stages.length > 1 ? [atOnce] : []), revert];
    case 'running':
      return [advance, hold, ...(isLast ? [] : [atOnce]), revert];
    case 'held':
      return [resume, advance, ...(isLast ? [] : [atOnce]), revert];
    case 'completed':
      return [revert];
    default:
      return [];
  }
}

function Steps({
  rollout,
  address,
  onDone,
}: {
  readonly rollout: Rollout;
  readonly address: string;
  readonly onDone: () => void;
}): VNode {
  const [asked, setAsked] = useState<Step>();
  return (
    <>
      <div class="buttons">
        {stepsOf(rollout).map((step, index) => (
          <Button
            key={step.says}
            class={step.isDangerous ? 'danger' : index === 0 ? '' : 'secondary'}
            says={`${step.says}…`}
            onClick={() => setAsked(step)}
          />
        ))}
      </div>
      {asked && (
        <Ask step={asked} address={address} onClose={() => setAsked(undefined)} onDone={onDone} />
      )}
    </>
  );
}

function Ask({
  step,
  address,
  onClose,
  onDone,
}: {
  readonly step: Step;
  readonly address: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): VNode {
  const [reason, setReason] = useState('');
  const said = reason.trim();
  return (
    <FormDialog
      title={step.says}
      verb={step.says}
      isDangerous={step.isDangerous ?? false}
      work={async () => {
        const body = { ...step.body, ...(said !== '' && { reason: said }) };
        await call('POST', `${address}/${step.name}`, { body });
        onClose();
        onDone();
      }}
      onClose={onClose}
    >
      <p>{step.about}</p>
      <ReasonField
        value={reason}
        required={step.needsReason}
        placeholder={
          step.needsReason ? 'Why, for the history' : 'Why, where its gates have not passed yet'
        }
        onValue={setReason}
      />
    </FormDialog>
  );
}

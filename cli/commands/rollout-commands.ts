/** Commands about rollouts: which are under way, what their gates say, and the steps. */
import type { ResultOf } from '../../shared/contracts/index.ts';
import { Misused, type Command, type Input } from '../command.ts';
import { columns } from '../output.ts';
import type { Session } from '../session.ts';
import { countOf, given, textOf } from '../typed.ts';

type Rollout = ResultOf<'global-config.rollouts.get'>;
type Stage = Rollout['stages'][number];

const complete = {
  async rollout(session: Session) {
    const { items } = await session.call('global-config.rollouts.list', { limit: 100 });
    return items.map(({ id }) => id);
  },
};

const stageOf = ({ stage, stages }: Rollout): string =>
  stage === null ? `none of ${stages.length}` : `${stage + 1} of ${stages.length}`;
const rowOf = (rollout: Rollout) => ({
  id: rollout.id,
  title: rollout.title,
  state: rollout.phase === null ? rollout.state : `${rollout.state}, ${rollout.phase}`,
  stage: stageOf(rollout),
  since: rollout.updated_at,
  note: rollout.note,
});

const whoHas = ({ percent, tenants }: Stage): string =>
  [
    ...(percent === undefined ? [] : [`${percent} %`]),
    ...(tenants ? [`${tenants.length} by name`] : []),
  ].join(' and ');

const list: Command = {
  name: 'rollouts list',
  parameters: '',
  summary: 'newest first',
  flags: {
    state: { type: 'string', summary: 'only of this state, such as running or held' },
    limit: { type: 'string', summary: 'how many, 20 by default' },
  },
  async run({ session, flags, answer }) {
    const page = await session.call(
      'global-config.rollouts.list',
      // A state that there is not is refused by the contract, which names those there are.
      given({ state: textOf(flags.state) as Rollout['state'], limit: countOf(flags.limit, 20) }),
    );
    answer(page, () => columns(page.items.map(rowOf)));
  },
};

const show: Command = {
  name: 'rollouts show',
  parameters: '<rollout>',
  summary: 'its stages, and what their gates answered',
  complete,
  async run({ session, args: { rollout: id }, answer }) {
    const rollout = await session.call('global-config.rollouts.get', { rollout_id: id! });
    answer(rollout, () => {
      const stages = rollout.stages.map((stage, index) => ({
        stage: index + 1,
        at: index === rollout.stage ? 'here' : '',
        tenants: whoHas(stage),
        bakes: `${stage.bake_minutes} min`,
        gates: stage.gate.map(({ type }) => type).join(', '),
      }));
      const answers = rollout.answers.map(({ stage, gate, result, since, at, detail }) => ({
        stage: stage + 1,
        gate: gate + 1,
        result,
        since,
        until: at,
        detail,
      }));
      const parts = [columns([rowOf(rollout)]), columns(stages)];
      return [...parts, ...(answers.length > 0 ? [columns(answers)] : [])].join('\n\n');
    });
  },
};

const answered = ({ answer }: Input, rollout: Rollout): void =>
  answer(rollout, () => columns([rowOf(rollout)]));

const advance: Command = {
  name: 'rollouts advance',
  parameters: '<rollout>',
  summary: 'begin the next stage, or complete it after the last one',
  complete,
  flags: {
    reason: { type: 'string', summary: 'why; needed before it has baked or gates have passed' },
    'all-at-once': { type: 'boolean', summary: 'all tenants now; needs a reason' },
  },
  async run(input) {
    const { session, args, flags } = input;
    const id = args.rollout!;
    const { stage } = await session.call('global-config.rollouts.get', { rollout_id: id });
    const all = flags['all-at-once'] === true ? { all_at_once: true } : {};
    const body = given({ stage, ...all, reason: textOf(flags.reason) });
    answered(input, await session.call('global-config.rollouts.advance', { rollout_id: id, body }));
  },
};

type Step = 'hold' | 'resume' | 'revert';
const step = (name: Step, summary: string): Command => ({
  name: `rollouts ${name}`,
  parameters: '<rollout>',
  summary,
  complete,
  flags: { reason: { type: 'string', summary: 'why; needed, kept in the history' } },
  async run(input) {
    const reason = textOf(input.flags.reason)?.trim();
    if (!reason) throw new Misused('--reason is missing: the history keeps it');
    const params = { rollout_id: input.args.rollout!, body: { reason } };
    answered(input, await input.session.call(`global-config.rollouts.${name}`, params));
  },
});

export const rolloutCommands: readonly Command[] = [
  list,
  show,
  advance,
  step('hold', 'stay at its stage until somebody resumes it'),
  step('resume', 'continue; its stage bakes again'),
  step('revert', 'all tenants have what was before, in one write'),
];

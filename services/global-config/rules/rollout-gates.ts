/**
 * What gates' answers mean, and what follows from them.
 *
 * | Its stage                   | all pass         | one waits                        | one fails |
 * | --------------------------- | ---------------- | -------------------------------- | --------- |
 * | bakes                       | stays            | stays                            | `on_fail` |
 * | has baked                   | the next stage   | stays                            | `on_fail` |
 * | baked for max_hold_minutes  | the next stage   | `on_fail`                        | `on_fail` |
 *
 * Whatever is no answer waits: no data, an error, no answer in time. Silence never passes.
 */
import { millionthsUp } from '../../../shared/budgets/decimal.ts';
import { mask } from '../../../shared/security/vault.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import type {
  CountsGate,
  GateAnswer,
  GateResult,
  PrometheusGate,
  RolloutGate,
} from '../../../shared/contracts/rollout-gates.ts';
import { mostAnswers, type StoredRollout } from '../../../shared/contracts/rollouts.ts';
import type { Problem } from '../../../shared/errors.ts';
import { InexactJson, parseExactJson } from '../../../shared/schema/exact-json.ts';

/** When its stage has baked, in Unix milliseconds; null where it is at none. */
export const bakedAt = ({ stages, stage, stage_at: at }: StoredRollout): number | null =>
  stage === null || at === null ? null : Date.parse(at) + stages[stage]!.bake_minutes * 60_000;

/** When `on_fail` comes if its gates have not passed, in Unix milliseconds; null where it does not run. */
export function gatesUntil(rollout: StoredRollout): number | null {
  const baked = rollout.state === 'running' ? bakedAt(rollout) : null;
  return baked === null ? null : baked + rollout.max_hold_minutes * 60_000;
}

export interface Verdict {
  readonly result: GateResult;
  readonly detail: string;
}
export const wait = (detail: string): Verdict => ({ result: 'wait', detail });

/** 422 for gates that could never answer, or have no answer but one. */
export const problemsOfGates = (
  { gate: gates }: Pick<StoredRollout['stages'][number], 'gate'>,
  percent: number,
  path: string,
): Problem[] =>
  gates.flatMap((gate, index) => {
    const message = problemOf(gate, percent);
    return message === undefined ? [] : [{ path: `${path}/${index}`, message }];
  });

function problemOf(gate: RolloutGate, percent: number): string | undefined {
  if (gate.type === 'prometheus' && gate.at_most === undefined && gate.at_least === undefined)
    return 'has neither at_most nor at_least, so that every number would pass';
  if (gate.type !== 'figures') return undefined;
  if (percent >= 100) return 'compares with other tenants, of which a stage of all has none';
  return gate.rule !== undefined && gate.figure !== 'denied'
    ? 'names a rule, which only denied automations have'
    : undefined;
}

const longestDetail = 200;
/** A line that PostgreSQL takes, without the secrets. */
export function lineOf(text: string, secrets: readonly string[] = []): string {
  const masked = secrets.reduce((rest, secret) => rest.replaceAll(secret, mask), text);
  // oxlint-disable-next-line no-control-regex
  const line = masked.replaceAll(/[\u0000-\u001f\u007f\s]+/g, ' ').trim();
  return line.slice(0, longestDetail).toWellFormed();
}

/** Of a webhook's answer: its status, and its body as text. */
export function verdictOfWebhook(status: number, body: string, secret: string): Verdict {
  if (status !== 200) return wait(`It answered ${status}`);
  let answer: unknown;
  try {
    answer = JSON.parse(body);
  } catch {
    return wait('Its answer is no JSON');
  }
  const { result, detail } = (answer ?? {}) as { result?: unknown; detail?: unknown };
  if (result !== 'pass' && result !== 'wait' && result !== 'fail')
    return wait('Its answer has no result that is pass, wait or fail');
  if (isSaidTwice('/result', body)) return wait('Its answer has more than one result');
  const said = typeof detail === 'string' ? lineOf(detail, [secret]) : '';
  return { result, detail: said === '' ? `It said ${result}` : said };
}

/** Whether valid JSON gives that member twice, of which JavaScript takes the last. */
function isSaidTwice(place: string, body: string): boolean {
  try {
    parseExactJson(body);
    return false;
  } catch (error) {
    if (error instanceof InexactJson) return error.problems.some(({ path }) => path === place);
    throw error;
  }
}

/**
 * Of the body of Prometheus's `/api/v1/query`, of which one number is taken. With a warning it may
 * be the number of a part: then it does not pass, whatever it is.
 */
export function verdictOfPrometheus(gate: PrometheusGate, status: number, body: string): Verdict {
  if (status !== 200) return wait(`Prometheus answered ${status}`);
  const answer = answerIn(body);
  const value = numberIn(answer);
  if (value === undefined) return wait('The query has not one number as its result');
  const { at_most: most = Infinity, at_least: least = -Infinity } = gate;
  if (value > most) return { result: 'fail', detail: `${value} is above ${most}` };
  if (value < least) return { result: 'fail', detail: `${value} is below ${least}` };
  const warning = warningIn(answer);
  if (warning !== undefined) return wait(lineOf(`${value}, with a warning: ${warning}`));
  return { result: 'pass', detail: `${value}` };
}

interface PrometheusAnswer {
  readonly status?: unknown;
  readonly data?: { readonly resultType?: unknown; readonly result?: unknown };
  readonly warnings?: unknown;
}

function answerIn(body: string): PrometheusAnswer | null {
  try {
    return JSON.parse(body) as PrometheusAnswer | null;
  } catch {
    return null;
  }
}

/** What a server of before 3.0 only remarks, such as on the name of a metric, is none. */
const warningIn = (answer: PrometheusAnswer | null): string | undefined =>
  [answer?.warnings ?? []]
    .flat()
    .map(String)
    .find((each) => !each.startsWith('PromQL info'));

/** Prometheus writes numbers as text, `NaN` and infinities among them, which are none here. */
function numberIn(answer: PrometheusAnswer | null): number | undefined {
  if (answer?.status !== 'success') return undefined;
  const { resultType: type, result } = answer.data ?? {};
  if (!Array.isArray(result)) return undefined;
  const samples: unknown[] =
    type === 'vector' ? result.map((each: { value?: unknown } | null) => each?.value) : [];
  const [sample, ...others] = type === 'scalar' ? [result] : samples;
  if (others.length > 0 || !Array.isArray(sample)) return undefined;
  const text: unknown = sample[1];
  const value = typeof text === 'string' && text.trim() !== '' ? Number(text) : NaN;
  return Number.isFinite(value) ? value : undefined;
}

type Counted = ResultOf<'notifier.automations.figures'>;

/** Of the cohort beside the rest. */
export function verdictOfCounts(gate: CountsGate, { cohort, rest }: Counted): Verdict {
  const shares = [cohort, rest].map(({ all, bad }) => `${bad} of ${all}`);
  const beside = `${shares[0]} ${gate.figure}, beside ${shares[1]}`;
  const isEnough = cohort.all >= gate.min_sample && rest.all >= gate.min_sample;
  if (!isEnough) return wait(`${beside}: fewer than ${gate.min_sample}`);
  return { result: isBeyond(gate, cohort, rest) ? 'fail' : 'pass', detail: beside };
}

/** In whole numbers: as doubles, 7 % beside 5 % are more than two points apart. */
function isBeyond(
  { tolerance_percent: tolerance }: CountsGate,
  cohort: Counted['cohort'],
  rest: Counted['rest'],
): boolean {
  const [all, bad] = [BigInt(cohort.all), BigInt(cohort.bad)];
  const [allBeside, badBeside] = [BigInt(rest.all), BigInt(rest.bad)];
  const points = 100n * millionthsUp(1) * (bad * allBeside - badBeside * all);
  return points > millionthsUp(tolerance) * all * allBeside;
}

const nameOf = ({ stages }: StoredRollout, { stage, gate }: GateAnswer): string =>
  `gate ${gate + 1} (${stages[stage]!.gate[gate]!.type}) of stage ${stage + 1}`;

export type Following =
  | { readonly step: 'none' }
  | { readonly step: 'advance' }
  | { readonly step: 'hold' | 'revert'; readonly note: string };

/** What follows for a rollout that runs, from what all gates of its stage answered just now. */
export function following(
  rollout: StoredRollout,
  answers: readonly GateAnswer[],
  now: number,
): Following {
  const failed = answers.find(({ result }) => result === 'fail');
  if (failed)
    return {
      step: rollout.on_fail,
      note: `Failed: ${nameOf(rollout, failed)}. ${failed.detail}`,
    };
  if (now < bakedAt(rollout)!) return { step: 'none' };
  const waiting = answers.find(({ result }) => result !== 'pass');
  if (!waiting) return { step: 'advance' };
  if (now < gatesUntil(rollout)!) return { step: 'none' };
  return {
    step: rollout.on_fail,
    note: `Waited for more than ${rollout.max_hold_minutes} minutes: ${nameOf(rollout, waiting)}. ${waiting.detail}`,
  };
}

/** The newest answer first. One that says the same as the previous one takes its place. */
export function withAnswers(
  known: readonly GateAnswer[],
  answers: readonly GateAnswer[],
): GateAnswer[] {
  const all = [...known];
  for (const answer of answers) {
    const index = all.findIndex(
      ({ stage, gate }) => stage === answer.stage && gate === answer.gate,
    );
    const before = all[index];
    const isSame = before?.result === answer.result;
    if (isSame) all.splice(index, 1);
    all.unshift(isSame ? { ...answer, since: before.since } : answer);
  }
  return all.slice(0, mostAnswers);
}

/** The gates of its stage that have not passed since it began, but for manual ones. */
export function notPassed(rollout: StoredRollout, answers: readonly GateAnswer[]): string[] {
  const { stage, stage_at: began, stages } = rollout;
  if (stage === null || began === null) return [];
  return stages[stage]!.gate.flatMap((gate, index) => {
    if (gate.type === 'manual') return [];
    const last = answers.find((each) => each.stage === stage && each.gate === index);
    const isOfNow = last !== undefined && Date.parse(last.at) >= Date.parse(began);
    if (isOfNow && last.result === 'pass') return [];
    return [
      `gate ${index + 1} (${gate.type}) ${isOfNow ? `says ${last.result}` : 'has not answered'}`,
    ];
  });
}

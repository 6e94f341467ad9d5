/**
 * Gates of a rollout's stage: what is asked before the next stage begins. Each answers pass, wait
 * or fail; whatever is no answer is wait.
 */
import { Type, type Static } from 'typebox';
import { internalRead } from './contract.ts';
import { described, Optional, StrictObject, Timestamp, TitledObject, Uuid } from './fields.ts';
import { marks, Secret } from './marks.ts';

const Manual = StrictObject({
  type: Type.Literal('manual', { description: 'Somebody advances it' }),
});

/** Of automations, which the notifier has; tenant-config has those of writes. */
export const automationCounts = ['denied', 'failed'] as const;
const countNames = [...automationCounts, 'refused'] as const;
const Counts = StrictObject({
  type: Type.Literal('figures', {
    description:
      'What became of automations or writes of the tenants that have it, beside all others',
  }),
  figure: Type.Enum(countNames, {
    description:
      '`denied`: of all that ended since the stage began, those denied; `failed`: of those that ran, those whose outcome is not `succeeded`; `refused`: of writes of documents, those that rules refused (422)',
  }),
  rule: Optional.String({
    minLength: 1,
    maxLength: 64,
    description: 'Of `denied`, only those that this rule denied',
    examples: ['budget_exceeded'],
  }),
  tolerance_percent: Type.Number({
    minimum: 0,
    maximum: 100,
    description: 'Fails where the share is more than so many percentage points above the others',
    examples: [2],
  }),
  min_sample: Type.Integer({
    minimum: 1,
    maximum: 10_000,
    description: 'Waits until each side has so many automations or writes',
    examples: [50],
  }),
});
export type CountsGate = Static<typeof Counts>;

const Webhook = StrictObject(
  {
    type: Type.Literal('webhook', { description: 'Another system says so' }),
    url: Type.String({
      minLength: 1,
      maxLength: 2048,
      pattern: '^https?://[^\\s\\x00-\\x1f\\x7f]+$',
      description: 'Asked by POST; answers `{"result": "pass" | "wait" | "fail"}` with 200',
      examples: ['https://health.acme.example/rollouts'],
      [marks.calledAddress]: true,
    }),
    secret: Secret('Requests are signed with it, as those of webhook endpoints'),
  },
  { [marks.secretsOf]: 'rollout_gate' },
);
export type WebhookGate = Static<typeof Webhook>;

const Prometheus = StrictObject({
  type: Type.Literal('prometheus', { description: 'A query to the Prometheus of PROMETHEUS_URL' }),
  query: Type.String({
    minLength: 1,
    maxLength: 2000,
    description: 'PromQL with one number as its result; anything else waits',
    examples: ['sum(rate(checkout_errors_total[5m]))'],
  }),
  at_most: Optional.Number({ description: 'Fails above it', examples: [0.5] }),
  at_least: Optional.Number({ description: 'Fails below it' }),
});
export type PrometheusGate = Static<typeof Prometheus>;

export type RolloutGate = Static<typeof Manual> | CountsGate | WebhookGate | PrometheusGate;
export const RolloutGate = Type.Unsafe<RolloutGate>({
  type: 'object',
  discriminator: { propertyName: 'type' },
  oneOf: [Manual, Counts, Webhook, Prometheus],
  title: 'RolloutGate',
  description: 'What lets the next stage begin',
});

export const gateResults = ['pass', 'wait', 'fail'] as const;
export type GateResult = (typeof gateResults)[number];

/** Answers in a row of one gate that are the same are one, with the time of the first and last. */
export const GateAnswer = TitledObject('RolloutGateAnswer', 'What a gate answered, and when', {
  stage: Type.Integer({ description: 'The stage, from 0 on' }),
  gate: Type.Integer({ description: 'The gate among those of the stage, from 0 on' }),
  result: Type.Enum(gateResults, {
    description: '`wait` also where there are no data, an error or no answer in time',
  }),
  detail: Type.String({ description: 'What it said, in a line' }),
  since: described(Timestamp, 'When it first said so'),
  at: described(Timestamp, 'When it last said so'),
});
export type GateAnswer = Static<typeof GateAnswer>;

/** Whose counts are asked for. */
const sides = {
  salt: Type.String(),
  percent: Type.Number(),
  tenants: Type.Array(Uuid),
  since: Timestamp,
};
const Counted = StrictObject({ all: Type.Integer(), bad: Type.Integer() });

export const rolloutGateContracts = {
  'notifier.automations.figures': internalRead({
    summary: 'What became of automations of the tenants in a cohort, and of all others',
    query: {
      ...sides,
      figure: Type.Enum(automationCounts),
      rule: Optional.String(),
    },
    result: StrictObject({ cohort: Counted, rest: Counted }),
  }),
  'tenant-config.writes.figures': internalRead({
    summary: 'Writes of documents that were refused to the tenants in a cohort, and to all others',
    query: sides,
    result: StrictObject({ cohort: Counted, rest: Counted }),
  }),
} as const;

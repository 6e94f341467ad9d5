/**
 * The risk settings as one table of rules, and the freezes beside them. In the order of
 * `decidingLimits` the first rule that applies decides, and all that apply are listed. Where none
 * applies automation is allowed to act.
 * `approval_timeout_minutes` says how long an approval waits; `max_concurrent_automations` is held
 * where slots are taken, since its rule needs to know what runs. Neither decides here.
 */
import { exceeds } from '../../../shared/bounds/limits.ts';
import { frozenBy, type Frozen } from '../../../shared/budgets/frozen-by.ts';
import type { AutomationDecision, Decided, Intent } from '../../../shared/contracts/decide.ts';
import type { ResultOf } from '../../../shared/contracts/index.ts';
import { decidingLimits, type RiskLimits } from '../../../shared/contracts/risk.ts';
import { BusinessHours } from '../../../shared/contracts/weekly-hours.ts';
import { timestampOf } from '../../../shared/schema/moment.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import { platformFreezesKey, tenantFreezesKey } from '../../../shared/contracts/freezes.ts';
import { opensNext } from './business-hours.ts';
import { claimsRollback } from './rollback-claim.ts';

/**
 * What the rules look at: the effective values, the intent, and when it would be acted upon (Unix
 * milliseconds). A bound may leave a limit without a value; then it is as strict as it can be.
 */
interface Case {
  readonly limits: Partial<RiskLimits>;
  readonly hours: unknown;
  /** The maintenance windows of the instance, where they are the only times; undefined elsewhere. */
  readonly windows: unknown;
  readonly intent: Intent;
  /** Whether what it takes back exists. */
  readonly isRollback: boolean;
  readonly at: number;
}

interface Rule {
  readonly decision: AutomationDecision;
  readonly applies: (of: Case) => boolean;
  readonly asked: (of: Case) => unknown;
}

const isRisky = ({ risk_level: level }: Intent): boolean =>
  level === 'high' || level === 'critical';

export const rules: Readonly<Record<(typeof decidingLimits)[number], Rule>> = {
  automation_enabled: {
    decision: 'deny',
    applies: ({ limits }) => limits.automation_enabled !== true,
    asked: ({ intent }) => intent.action,
  },
  business_hours_only: {
    decision: 'deny',
    applies: ({ limits, hours, at }) => limits.business_hours_only !== false && !isOpen(hours, at),
    asked: ({ at }) => new Date(at).toISOString(),
  },
  maintenance_windows_only: {
    decision: 'deny',
    applies: ({ windows, at }) => windows !== undefined && !isWithinAny(windows, at),
    asked: ({ at }) => new Date(at).toISOString(),
  },
  max_resource_scaling: {
    decision: 'deny',
    applies: ({ limits, intent }) => exceeds(intent.resource_scaling, limits.max_resource_scaling),
    asked: ({ intent }) => intent.resource_scaling,
  },
  max_cost_impact_approval: {
    decision: 'deny',
    applies: ({ limits, intent }) => exceeds(intent.cost_impact, limits.max_cost_impact_approval),
    asked: ({ intent }) => intent.cost_impact,
  },
  auto_approve_rollbacks: {
    decision: 'allow',
    applies: ({ limits, isRollback }) => isRollback && limits.auto_approve_rollbacks === true,
    asked: ({ intent }) => intent.takes_back,
  },
  require_approval_for_high_risk: {
    decision: 'approval_required',
    applies: ({ limits, intent }) =>
      isRisky(intent) && limits.require_approval_for_high_risk !== false,
    asked: ({ intent }) => intent.risk_level,
  },
  max_cost_impact_auto: {
    decision: 'approval_required',
    applies: ({ limits, intent }) => exceeds(intent.cost_impact, limits.max_cost_impact_auto),
    asked: ({ intent }) => intent.cost_impact,
  },
};

/**
 * Lower layers take any JSON under any name. What is no business hours never opens: a mistake does
 * not loosen a limit.
 */
const areHours = (hours: unknown): hours is BusinessHours =>
  problemsOf(BusinessHours, hours).length === 0;
/** When the first of the windows opens; null within one, undefined where none ever does. */
function windowOpens(windows: unknown, at: number): Date | null | undefined {
  const all = Array.isArray(windows) ? windows.filter(areHours) : [];
  const opening = all.map((window) => opensNext(window, at));
  if (opening.includes(null)) return null;
  return opening.toSorted((a, b) => a!.getTime() - b!.getTime())[0];
}
const isWithinAny = (windows: unknown, at: number): boolean => windowOpens(windows, at) === null;
const isOpen = (hours: unknown, at: number): boolean => isWithinAny([hours], at);

/**
 * Without windows of its own there is no time at which automation may act on the instance. A value
 * that a bound has removed, or that is no boolean, is as strict as it can be.
 */
const bindingWindows = ({ values }: ExplainedConfiguration, intent: Intent): unknown =>
  intent.service_id === undefined || values.maintenance_windows_only === false
    ? undefined
    : (values.maintenance_windows ?? []);

/** Explained, so that each reason can say where its limit was set. */
export type ExplainedConfiguration = Pick<
  ResultOf<'config-resolver.resolve'>,
  'tenant_id' | 'service_type' | 'values' | 'explain' | 'over_time' | 'revision' | 'stale'
>;

/**
 * `at` in Unix milliseconds; `isProven` where what `takes_back` names was found. Stale limits make a
 * decision that is marked so.
 */
export function decide(
  effective: ExplainedConfiguration,
  intent: Intent,
  at: number,
  isProven = false,
): Decided {
  const { values, explain, revision, stale } = effective;
  // Each environment has it, and so all limits that the merging node knows.
  if (explain?.automation_enabled === undefined) throw new Error('no limit is explained');
  const limits: Partial<RiskLimits> = values;
  const isRollback = isProven && claimsRollback(intent);
  const windows = bindingWindows(effective, intent);
  const of: Case = { limits, hours: values.business_hours, windows, intent, isRollback, at };
  // What nothing explains is of an instance that does not say it, or newer than that node.
  const applying = decidingLimits.filter(
    (rule) => explain[rule] !== undefined && rules[rule].applies(of),
  );
  const frozen = frozenNow(effective, of);
  const enforced = frozen.filter(({ rule }) => rule.mode !== 'warn');
  const byLimits = applying.map((rule) => ({
    rule,
    asked: rules[rule].asked(of),
    ...settingOf(effective, rule),
  }));
  const byFreezes = enforced.map((freeze) => freezeReason(freeze, effective.tenant_id, at));
  // An emergency stop is named before freezes, which are named before everything else.
  const stops = applying[0] === 'automation_enabled' ? 1 : 0;
  const reasons = [...byLimits.slice(0, stops), ...byFreezes, ...byLimits.slice(stops)];
  const [deciding] = applying;
  const warnings = [
    ...(claimsRollback(intent) && !isRollback ? [unprovenWarning(intent)] : []),
    ...frozen.filter(({ rule }) => rule.mode === 'warn').map(freezeWarning),
  ];
  return {
    decision: decisionOf(deciding, enforced),
    reasons,
    ...(warnings.length > 0 && { warnings }),
    ...(stops === 0 && retryAt(of, enforced, deciding)),
    revision,
    ...(stale && { stale }),
  };
}

const decisionOf = (
  deciding: (typeof decidingLimits)[number] | undefined,
  frozen: readonly Frozen[],
): AutomationDecision => {
  if (frozen.length > 0) return 'deny';
  return deciding === undefined ? 'allow' : rules[deciding].decision;
};

function frozenNow(
  { over_time: limits, service_type }: ExplainedConfiguration,
  { intent, isRollback, at }: Case,
): Frozen[] {
  if (limits === undefined) return [];
  const { action, risk_level, agent_type, service_id } = intent;
  return frozenBy(limits.freezes, {
    action,
    risk_level,
    agent_type,
    service_id,
    service_type: service_type ?? undefined,
    project_id: limits.project_id ?? undefined,
    environment: limits.environment,
    isRollback,
    at,
  });
}

const freezeReason = (
  { by, name, rule, revision, until }: Frozen,
  tenantId: string,
  at: number,
) => ({
  rule: 'freeze' as const,
  asked: new Date(at).toISOString(),
  name,
  ...(until !== null && { resets_at: timestampOf(until) }),
  limit: rule.reason ?? null,
  layer: 'freezes' as const,
  source: by === 'platform' ? platformFreezesKey : tenantFreezesKey({ tenant_id: tenantId }),
  revision,
});

const freezeWarning = ({ by, name }: Frozen) => ({
  path: '/action',
  message: `The freeze ${name} of the ${by} would refuse it, and only warns.`,
});

const whatToName =
  'Name in takes_back the automation_id of an automation of this tenant that ran for the same service_id and service_type, or the revision of a write of the document of this service_id (without one, of this agent_type; without either, of a document that the tenant has one of).';

const unprovenWarning = ({ takes_back: named }: Intent) =>
  named === undefined
    ? { path: '/is_rollback', message: `Does not count as a rollback. ${whatToName}` }
    : { path: '/takes_back', message: `Not found, so it does not count. ${whatToName}` };

/** When the last freeze ends and, where they decide, business hours or maintenance windows open. */
function retryAt(
  { hours, windows, at }: Case,
  frozen: readonly Frozen[],
  deciding: (typeof decidingLimits)[number] | undefined,
): { retry_at: string } | undefined {
  const isClosed = deciding === 'business_hours_only' || deciding === 'maintenance_windows_only';
  const times = deciding === 'business_hours_only' ? [hours] : windows;
  const opening = isClosed ? (windowOpens(times, at) ?? null) : null;
  if (isClosed && opening === null) return undefined;
  const ends = frozen.map(({ until }) => until ?? Infinity);
  const last = Math.max(opening?.getTime() ?? -Infinity, ...ends);
  return Number.isFinite(last) ? { retry_at: timestampOf(last) } : undefined;
}

/** A setting as reasons show it: its value, and which layer and document it is from. */
export function settingOf(
  { values, explain }: ExplainedConfiguration,
  name: (typeof decidingLimits)[number] | keyof RiskLimits,
) {
  const explained = explain?.[name];
  if (!explained) throw new Error(`${name} is not explained`);
  const { layer, source, revision } = explained;
  return { limit: values[name] ?? null, layer, source, revision };
}

/** One recorded decision, explained by the configuration that made it. */
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import type { RecordedDecision } from '../../../shared/contracts/decisions.ts';
import { addressOf } from '../../../shared/contracts/effective-config.ts';
import { decidingLimits } from '../../../shared/contracts/risk.ts';
import { businessHoursKey } from '../../../shared/contracts/weekly-hours.ts';
import { codeOf } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { explainValues } from '../rules/explain.ts';
import { environmentDefaults } from '../rules/layers.ts';
import { authorsOf } from './authors.ts';
import { unknownPast } from './digests.ts';
import { sourcesThen } from './sources.ts';

/** What the rules of `decide` look at. */
const explained: ReadonlySet<string> = new Set([
  ...decidingLimits,
  'maintenance_windows',
  businessHoursKey,
]);

export const decisionActions = (settings: () => Settings) =>
  ({
    async 'config-resolver.decisions.get'({ tenant_id, decision_id }, request) {
      const decision = await request.call('notifier.decisions.get', { tenant_id, decision_id });
      return { ...decision, ...(await explanationOf(tenant_id, decision, settings(), request)) };
    },
  }) satisfies Handlers;

/** By exactly the revisions that decided; the environment's layer is that of now. */
async function explanationOf(
  tenantId: string,
  { intent, revision }: RecordedDecision,
  settings: Settings,
  request: Request,
) {
  const question = { tenant_id: tenantId, ...addressOf(intent) };
  const environment = environmentDefaults(settings);
  const then = { platformAsOf: revision.platform };
  try {
    const sources = await sourcesThen(question, revision.tenant, environment, request, then);
    if (sources.platform.withheld === true)
      return missing('Entries of the platform that it had are withdrawn or purged.');
    const { explain } = explainValues(sources, await authorsOf(sources, request));
    const own = Object.entries(explain).filter(([key]) => explained.has(key));
    return { explain: Object.fromEntries(own) };
  } catch (error) {
    if (unknownPast.has(codeOf(error)))
      return missing('The history does not have the configuration at that time any more.');
    throw error;
  }
}

const missing = (why: string) => ({ explain: null, not_explained: why });

/**
 * Effective values as digests, for whoever tells others what has changed: several contexts at once,
 * and as they were.
 */
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import {
  addressOf,
  type Address,
  type Digests,
} from '../../../shared/contracts/effective-config.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { codeOf, errorResponse, StrataError } from '../../../shared/errors.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { digestsOf } from '../rules/digests.ts';
import type { Environments } from '../rules/environments.ts';
import { sidesOf } from '../rules/rollouts.ts';
import {
  effectiveValues,
  environmentDefaults,
  environmentFingerprint,
  type Sources,
} from '../rules/layers.ts';
import { neverStill, type LayersInMemory, type Together } from './layers-in-memory.ts';
import { Slices } from './slices.ts';
import { namesOf, sourcesOf, sourcesThen } from './sources.ts';

/** Of one answer, unless one context has more. */
const mostKeys = 1_000_000;

/**
 * The environment of now. When it has replaced another, the database is asked for the time, which
 * values made later are known by.
 */
export async function noteEnvironment(
  environments: Environments,
  current: Settings,
  { call }: Pick<Request, 'call'>,
): Promise<void> {
  const replaced = environments.note(current);
  if (replaced.length === 0) return;
  const { at } = await call('tenant-config.moment', { tenant_ids: [] });
  for (const each of replaced) each.replacedAt ??= at;
}

export function digestActions(
  settings: () => Settings,
  environments: Environments,
  inMemory: LayersInMemory,
) {
  return {
    async 'config-resolver.digests'({ tenant_id: tenantId, contexts, min_revision: min }, request) {
      const [tenant, platform] = min.split('.').map(Number) as [number, number];
      const names = namesOf(contexts);
      const together = await inMemory.together(tenantId, names, { tenant, platform }, request);
      // Of many contexts the history is not asked: whoever tells of changes asks again.
      if (!together) throw neverStill();
      const current = settings();
      const environment = environmentDefaults(current);
      await noteEnvironment(environments, current, request);
      const { rollouts = [] } = together.platform;
      const found: ReturnType<typeof digestsOrProblem>[] = [];
      const slices = new Slices();
      let keys = 0;
      for (const context of contexts) {
        // Of a thousand contexts with a thousand keys each it is seconds of work.
        if (slices.isOver()) await slices.breathe();
        const next = digestsOrProblem(tenantId, context, together, environment);
        keys += Object.keys(next.digests ?? {}).length;
        if (keys > mostKeys && found.length > 0) throw tooManyKeys();
        found.push(next);
      }
      return {
        revision: { tenant: together.tenant.revision, platform: together.platform.revision },
        ...(rollouts.length > 0 && { rollouts: sidesOf(rollouts, tenantId) }),
        environment: environmentFingerprint(environment),
        contexts: found,
      };
    },

    async 'config-resolver.past-digests'(params, request) {
      await noteEnvironment(environments, settings(), request);
      const past = await inPast(params, request);
      if (past === undefined) return { states: null };
      const states = environments
        .since(past.madeAt)
        .map((each) => ofSources({ ...past.sources, environment: environmentDefaults(each) }));
      return { states };
    },
  } satisfies Handlers;
}

const tooManyKeys = (): StrataError =>
  new StrataError(
    'payload_too_large',
    'These contexts have too many keys together. Ask for fewer at a time.',
  );

const ofSources = (sources: Sources): Digests => digestsOf(effectiveValues(sources).values);

/** A context may be none any more, since its instance has got another type. */
function digestsOrProblem(
  tenantId: string,
  context: Address,
  together: Together,
  environment: Sources['environment'],
) {
  try {
    const question = { tenant_id: tenantId, ...context };
    return { digests: ofSources(sourcesOf(question, together, environment)) };
  } catch (error) {
    const [problem] = errorResponse(error, '').body.errors ?? [];
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** What is said of revisions that nobody can show any more, or of a context that there was not. */
export const unknownPast: ReadonlySet<string> = new Set([
  'validation_failed',
  'not_found',
  'before_history',
]);

/**
 * Undefined where either revision is none of those that history can still show, or was lost by a
 * restore; and where something was withdrawn or purged since. Anyone can name a revision, so naming
 * the keys that differ from it would tell of what readers may not see any more: a tenant that sets
 * the key would learn whether its value is the one that was withdrawn.
 */
async function inPast(
  params: ParamsOf<'config-resolver.past-digests'>,
  request: Pick<Request, 'call'>,
) {
  const { tenant_id, tenant: revision, platform } = params;
  if (revision === 0) return undefined;
  const after = { tenant_id, after: revision - 1, limit: 1 };
  const { items } = await request.call('tenant-config.changes', after);
  const [made] = items;
  if (made?.revision !== revision) return undefined;
  try {
    const question = { tenant_id, ...addressOf(params) };
    const sources = await sourcesThen(question, revision, {}, request, { platformAsOf: platform });
    const isExact = sources.tenant.revision === revision && sources.platform.revision === platform;
    if (!isExact || sources.platform.withheld) return undefined;
    const now = await request.call('tenant-config.moment', { tenant_ids: [] });
    // Of an older revision of the platform the time is not asked for: earlier than it was is safe.
    const ofPlatform = now.platform === platform ? now.platform_changed_at : 0;
    // When the later of the two was made, by the database's clock.
    return { sources, madeAt: Math.max(Date.parse(made.changed_at), ofPlatform) };
  } catch (error) {
    if (unknownPast.has(codeOf(error))) return undefined;
    throw error;
  }
}

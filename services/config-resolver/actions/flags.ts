/** Evaluation of flags for OpenFeature's providers (OFREP). */
import { Type } from 'typebox';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { address } from '../../../shared/contracts/effective-config.ts';
import { strict } from '../../../shared/contracts/fields.ts';
import { invalid, StrataError } from '../../../shared/errors.ts';
import { isWithin } from '../../../shared/narrow-keys.ts';
import { problemsOf } from '../../../shared/schema/validate.ts';
import { flagOf, inContext, namedBy, tagOf, type Named } from '../rules/flags.ts';

const Address = Type.Object(address, strict);

/** What the context of a body names. Throws 422 for what is no name, 403 for what is outside of a narrow key. */
function askedFor(
  body: { readonly context?: Readonly<Record<string, unknown>> } | undefined,
  { caller }: Request,
): Named {
  const named = namedBy(body?.context);
  const problems = problemsOf(Address, named.address);
  if (problems.length > 0) throw invalid(inContext(problems, named));
  const { service_id, agent_type } = named.address;
  if (!isWithin(caller.narrowed_to, { service_ids: service_id, agent_types: agent_type }))
    throw new StrataError(
      'insufficient_scope',
      'The API key is narrow and is for another context.',
    );
  return named;
}

const effectiveFor = (tenantId: string, { address: of }: Named, { call }: Request) =>
  call('config-resolver.resolve', { tenant_id: tenantId, ...of, explain: true });

export const flagActions = () =>
  ({
    async 'config-resolver.flags.evaluate'({ tenant_id, key, body }, request) {
      const named = askedFor(body, request);
      const flag = flagOf(key, await effectiveFor(tenant_id, named, request), named);
      if (!flag) throw new StrataError('not_found', `There is no value for ${key}.`);
      return flag;
    },

    async 'config-resolver.flags.evaluate-all'({ tenant_id, body }, request) {
      const named = askedFor(body, request);
      const effective = await effectiveFor(tenant_id, named, request);
      const { tenant, platform } = effective.revision;
      return {
        flags: Object.keys(effective.values).flatMap((key) => flagOf(key, effective, named) ?? []),
        metadata: { tenant_revision: tenant, platform_revision: platform },
        tag: tagOf(effective, named),
        context: named.address,
      };
    },
  }) satisfies Handlers;

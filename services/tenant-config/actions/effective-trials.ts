/** Writes of documents whose dry run also says what would become of an effective configuration. */
import type { DataSource } from 'typeorm';
import type { Request } from '../../../shared/contract-runtime/request.ts';
import { commitChange } from '../../../shared/commits/commit.ts';
import { tenantScope } from '../../../shared/contracts/revision-scopes.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import type { TenantAddress } from '../../../shared/contracts/tenant-document.ts';
import type { DocumentActions, WriteVerb } from '../../../shared/documents/document.ts';
import { withTrials } from '../../../shared/documents/handlers.ts';
import { requireReading } from '../../../shared/documents/trial.ts';
import { invalid } from '../../../shared/errors.ts';

/** The parameters of `effectiveTrials`, and those that decide whether it may be asked. */
interface Trial {
  readonly dry_run?: boolean;
  readonly effective?: boolean;
  readonly for_agent_type?: string;
  readonly for_service_id?: string;
  readonly for_service_type?: string;
}
interface Context {
  readonly agent_type?: string;
  readonly service_id?: string;
}
type Params<Address> = Address & Trial & { readonly body?: unknown };
type ConfigType = ParamsOf<'config-resolver.preview'>['body']['config_type'];

/** Throws 422 where only a dry run could be asked for that. */
function asksForEffective({ dry_run: isDryRun, effective, ...names }: Trial): boolean {
  const misplaced = (['for_agent_type', 'for_service_id', 'for_service_type'] as const).find(
    (name) => names[name] !== undefined && !effective,
  );
  if (misplaced) throw invalid([{ path: `/${misplaced}`, message: 'is for effective=true' }]);
  if (effective && !isDryRun)
    throw invalid([{ path: '/effective', message: 'is for dry_run=true' }]);
  return effective === true;
}

/** The writes of one kind, as its contracts have them. */
export function withEffectiveTrials<Address extends TenantAddress, Document>(
  db: DataSource,
  documents: DocumentActions<Address, Document>,
  configType: ConfigType,
  resourceIdOf: (address: Address) => string,
  /** What the document is for, where it is for one agent or instance alone. */
  own: (address: Address) => Context = () => ({}),
) {
  async function tryIt(verb: WriteVerb, params: Params<Address>, request: Request) {
    requireReading(request.caller, 'config:read', 'This shows effective values');
    const { for_agent_type, for_service_id, for_service_type, tenant_id } = params;
    const work = await documents.prepare(verb, params, request);
    const scope = tenantScope(tenant_id);
    const result = await commitChange(db, request, scope, work, { discard: true });
    const { answer, before, after } = result;
    const { effective } = await request.call('config-resolver.preview', {
      tenant_id,
      ...own(params),
      ...(for_agent_type !== undefined && { agent_type: for_agent_type }),
      ...(for_service_id !== undefined && { service_id: for_service_id }),
      ...(for_service_type !== undefined && { service_type: for_service_type }),
      body: { config_type: configType, resource_id: resourceIdOf(params), before, after },
    });
    return { ...answer, effective };
  }
  return withTrials(documents, asksForEffective, tryIt);
}

/** Whether what a rollback takes back exists, and is of what the rollback touches. */
import type { Request } from '../../../shared/contract-runtime/request.ts';
import type { Intent } from '../../../shared/contracts/decide.ts';
import { ifFound } from '../../../shared/errors.ts';

/** False where nothing is named. */
export async function isTakenBackFound(
  tenantId: string,
  intent: Intent,
  { call }: Pick<Request, 'call'>,
): Promise<boolean> {
  const { automation_id: automationId, revision } = intent.takes_back ?? {};
  if (automationId !== undefined)
    return (await ifFound(hasRun(tenantId, automationId, intent, call))) ?? false;
  if (revision === undefined) return false;
  return (await ifFound(wrote(tenantId, revision, intent, call))) ?? false;
}

/** One that never had a slot changed nothing. */
async function hasRun(
  tenantId: string,
  automationId: string,
  intent: Intent,
  call: Request['call'],
): Promise<boolean> {
  const earlier = await call('notifier.automations.get', {
    tenant_id: tenantId,
    automation_id: automationId,
  });
  const isSame =
    earlier.service_id === intent.service_id && earlier.service_type === intent.service_type;
  return isSame && earlier.started_at !== null;
}

async function wrote(
  tenantId: string,
  revision: number,
  { service_id: serviceId, agent_type: agentType }: Intent,
  call: Request['call'],
): Promise<boolean> {
  const written = await call('tenant-config.history.resource', { tenant_id: tenantId, revision });
  const is = (type: typeof written.config_type, id: string): boolean =>
    written.config_type === type && written.resource_id === id;
  if (serviceId !== undefined) return is('service_config', serviceId);
  if (agentType !== undefined) return is('agent_config', agentType);
  return written.resource_id === tenantId;
}

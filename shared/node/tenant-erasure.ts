/**
 * The part of a service in the erasure of tenants: it asks which, erases what it has of each, and
 * confirms that.
 */
import { randomUUID } from 'node:crypto';
import type { Context, ServiceSchema } from 'moleculer';
import type { Logger } from 'pino';
import { serviceCaller } from '../access.ts';
import { erasingEvent, type erasingServices } from '../contracts/tenants.ts';
import { callAs, type Call } from '../contract-runtime/request.ts';

export interface ErasureOptions {
  readonly service: (typeof erasingServices)[number];
  readonly log: Logger;
  /** Erases a bounded chunk of what the service has of the tenant. */
  readonly erase: (call: Call, tenantId: string) => Promise<{ readonly done: boolean }>;
}

/**
 * For `events` of the service. One node of the service gets each of these events, and the next
 * comes soon: what fails, or was on its way when the node ended, is done then. Who sent it is not
 * trusted: tenant-config says which tenants.
 */
export function erasesTenants({
  service,
  log,
  erase,
}: ErasureOptions): NonNullable<ServiceSchema['events']> {
  let isRunning = false;

  const complain = (error: unknown, tenantId?: string): void =>
    log.warn(
      { err: error, tenant_id: tenantId },
      'what a tenant left cannot be erased yet; it is tried again',
    );

  async function eraseOne(call: Call, tenantId: string): Promise<void> {
    let isDone = false;
    while (!isDone) ({ done: isDone } = await erase(call, tenantId));
    await call('tenant-config.tenants.confirm-erased', { tenant_id: tenantId, service });
  }

  /** One that cannot be erased holds up no other. */
  async function eraseAll(call: Call): Promise<void> {
    const tenants = await call('tenant-config.tenants.erasing', {});
    for (const tenantId of tenants)
      await eraseOne(call, tenantId).catch((error: unknown) => complain(error, tenantId));
  }

  return {
    [erasingEvent]: {
      async handler({ broker }: Context) {
        if (isRunning) return;
        isRunning = true;
        const by = { caller: serviceCaller(service), requestId: randomUUID() };
        try {
          await eraseAll((action, params) => callAs(broker, action, params, by));
        } catch (error) {
          complain(error);
        } finally {
          isRunning = false;
        }
      },
    },
  };
}

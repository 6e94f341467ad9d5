/**
 * The loop behind erasures: it begins those that are due, has the services erase what they have,
 * and ends those that all have confirmed. It goes by what is stored, so whatever a node that is
 * gone left undone, another does within seconds.
 */
import {
  startBackgroundLoop,
  type BackgroundLoop,
} from '../../../shared/concurrency/background-loop.ts';
import type { LoopOptions } from '../../../shared/contract-runtime/service.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { dueTenants, endErasure, eraseHistory, hasDocuments } from '../stores/erasing.ts';

const pollMs = 5000;
/** While a tenant is being erased, and waits for the services. */
const busyPollMs = 1000;
const batchRows = 1000;

export interface ErasingOptions extends LoopOptions {
  readonly settings: () => Settings;
  /** Has the services ask which tenants are being erased. */
  readonly announce: () => void;
}

export function startErasing({
  db,
  settings,
  log,
  call,
  announce,
}: ErasingOptions): BackgroundLoop {
  const failing = new Set<string>();

  const begin = (id: string): Promise<null> =>
    call('tenant-config.tenants.erase', { tenant_id: id });

  async function erase(id: string, stopping: AbortSignal): Promise<void> {
    if (await hasDocuments(db.manager, id)) await begin(id);
    let removed = batchRows;
    while (removed === batchRows && !stopping.aborted)
      removed = await eraseHistory(db.manager, id, batchRows);
    if (removed === batchRows) return;
    const isErased = await db.transaction((manager) => endErasure(manager, id));
    if (isErased) log.info({ tenant_id: id }, 'a tenant was erased');
  }

  /** One tenant that cannot be erased holds up no other, and is logged once. */
  async function attempt(
    id: string,
    stopping: AbortSignal,
    step: (id: string, stopping: AbortSignal) => Promise<unknown>,
  ): Promise<void> {
    try {
      if (!stopping.aborted) await step(id, stopping);
      failing.delete(id);
    } catch (error) {
      if (!failing.has(id) && !stopping.aborted)
        log.warn(
          { err: error, tenant_id: id },
          'a tenant cannot be erased; it is tried again every few seconds',
        );
      failing.add(id);
    }
  }

  async function look(stopping: AbortSignal): Promise<number> {
    const due = await dueTenants(db.manager, settings());
    for (const id of due) await attempt(id, stopping, begin);
    const erasing = await call('tenant-config.tenants.erasing', {});
    if (erasing.length > 0) announce();
    for (const id of erasing) await attempt(id, stopping, erase);
    const isBusy = due.length + erasing.length > 0;
    return isBusy ? busyPollMs : pollMs;
  }

  return startBackgroundLoop({
    log,
    look,
    retryMs: pollMs,
    complaint: 'tenants to be erased cannot be read; it is tried again',
    // Until the node can call others.
    firstMs: pollMs,
  });
}

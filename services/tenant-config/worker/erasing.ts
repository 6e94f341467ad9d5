/**
 * The loop behind erasures: it begins those that are due, has the services erase what they have, and ends those that all have
 * confirmed. It goes by what is stored, so whatever a node that is gone left undone, another does within seconds.
 */
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import type { Call } from '../../../shared/cluster/request.ts';
import type { Settings } from '../../../shared/settings.ts';
import { WakeableWait } from '../../../shared/wakeable-wait.ts';
import { dueTenants, endErasure, eraseHistory, hasDocuments } from '../stores/erasing.ts';

const pollMs = 5000;
/** While a tenant is being erased, and waits for the services. */
const busyPollMs = 1000;
const batchRows = 1000;

export interface ErasingOptions {
  readonly db: DataSource;
  readonly settings: () => Settings;
  readonly log: Logger;
  readonly call: Call;
  /** Has the services ask which tenants are being erased. */
  readonly announce: () => void;
}

export interface ErasingWorker {
  readonly stop: () => Promise<void>;
}

export function startErasing({ db, settings, log, call, announce }: ErasingOptions): ErasingWorker {
  const nextLook = new WakeableWait();
  const stopping = new AbortController();
  const failing = new Set<string>();

  const begin = (id: string): Promise<null> =>
    call('tenant-config.tenants.erase', { tenant_id: id });

  async function erase(id: string): Promise<void> {
    if (await hasDocuments(db.manager, id)) await begin(id);
    let removed = batchRows;
    while (removed === batchRows && !stopping.signal.aborted)
      removed = await eraseHistory(db.manager, id, batchRows);
    if (removed === batchRows) return;
    const isErased = await db.transaction((manager) => endErasure(manager, id));
    if (isErased) log.info({ tenant_id: id }, 'a tenant was erased');
  }

  /** One tenant that cannot be erased holds up no other, and is logged once. */
  async function attempt(id: string, step: (id: string) => Promise<unknown>): Promise<void> {
    try {
      if (!stopping.signal.aborted) await step(id);
      failing.delete(id);
    } catch (error) {
      if (!failing.has(id) && !stopping.signal.aborted)
        log.warn(
          { err: error, tenant_id: id },
          'a tenant cannot be erased; it is tried again every few seconds',
        );
      failing.add(id);
    }
  }

  /** Resolves to whether a tenant is being erased. */
  async function look(): Promise<boolean> {
    const due = await dueTenants(db.manager, settings());
    for (const id of due) await attempt(id, begin);
    const erasing = await call('tenant-config.tenants.erasing', {});
    if (erasing.length > 0) announce();
    for (const id of erasing) await attempt(id, erase);
    return due.length + erasing.length > 0;
  }

  async function run(): Promise<void> {
    let isFailing = false;
    let isBusy = false;
    while (!stopping.signal.aborted) {
      await nextLook.wait(isBusy ? busyPollMs : pollMs);
      if (stopping.signal.aborted) return;
      try {
        isBusy = await look();
        isFailing = false;
      } catch (error) {
        if (!isFailing && !stopping.signal.aborted)
          log.warn({ err: error }, 'tenants to be erased cannot be read; it is tried again');
        isFailing = true;
      }
    }
  }

  const running = run();
  return {
    async stop() {
      stopping.abort();
      nextLook.wake();
      await running;
    },
  };
}

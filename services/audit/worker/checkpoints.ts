/**
 * The loop that signs the heads of the chains each hour, and says which chains no longer agree with
 * what was signed before. One node signs at a time; each looks for itself.
 */
import type { DataSource } from 'typeorm';
import { startBackgroundLoop } from '../../../shared/concurrency/background-loop.ts';
import type { ServiceOptions } from '../../../shared/contract-runtime/service.ts';
import {
  disagreeing,
  isSignedByAnother,
  mayLockSigning,
  signHeads,
} from '../stores/checkpoints.ts';

/** Signed without a pause: some 20 ms. */
const chainsAtOnce = 100;
const retryMs = 60_000;

export function startCheckpoints({ db, settings, log }: Omit<ServiceOptions, 'metrics'>) {
  /** Chains that no longer agree with their newest checkpoint; undefined before the first look. */
  let broken: number | undefined;

  /** Resolves to the chain after which there may be more; null where another node is signing. */
  const signSome = (after: string): Promise<string | null | undefined> =>
    db.transaction(async (manager) =>
      (await mayLockSigning(manager)) ? signHeads(manager, settings(), chainsAtOnce, after) : null,
    );

  async function look(stopping: AbortSignal): Promise<number> {
    // Before the current key signs.
    if (broken === undefined && (await isSignedByAnother(db.manager, settings())))
      log.warn(
        'SECRET_KEY is not the key that signed the newest audit checkpoint: secrets and API keys stored under that key cannot be read. Restore it (in embedded mode in DATA_DIR/secret.key), or set it as SECRET_KEY_PREVIOUS.',
      );
    const chains = await disagreeing(db.manager);
    for (const { chain, seq } of chains)
      log.error({ chain, seq }, 'an audit chain no longer agrees with its checkpoint');
    broken = chains.length;
    let after: string | null | undefined = '';
    do after = await signSome(after);
    while (typeof after === 'string' && !stopping.aborted);
    return after === null ? retryMs : untilNextHour(db);
  }

  const loop = startBackgroundLoop({
    log,
    look,
    retryMs,
    complaint: 'checkpoints of the audit cannot be signed; it is tried again every minute',
  });
  return { ...loop, broken: () => broken };
}

/** By the clock of the database, in milliseconds. */
async function untilNextHour(db: DataSource): Promise<number> {
  const [row] = await db.query<{ ms: number }[]>(
    `SELECT (1000 * extract(epoch FROM date_trunc('hour', now()) + interval '1 hour' - now()))::float8 AS ms`,
  );
  return Math.ceil(row!.ms) + 1;
}

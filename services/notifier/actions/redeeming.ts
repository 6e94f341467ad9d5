/**
 * Redeeming: an executor asks, right before it acts, whether exactly this action may be done now,
 * and is told so once.
 */
import type { EntityManager } from 'typeorm';
import { setTimeout as delay } from 'node:timers/promises';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { automationView, type Admission } from '../rules/automation.ts';
import { AutomationEntity, type AutomationRow } from '../schema.ts';
import { heldRevisions, isSameRevision, lockSlots } from '../stores/automations.ts';
import { clockTime, databaseTime, slotTime } from '../stores/clock.ts';
import { intentOf, type AutomationOptions } from './automations.ts';

type Params = ParamsOf<'notifier.automations.redeem'>;
type Outcome =
  | { readonly row: AutomationRow }
  | { readonly refused: 'grant_used' | 'digest_mismatch' | 'automation_over' };

const mostTries = 20;
/** Until this node has observed a change of the platform. */
const pauseMs = 50;

export const redeemActions = ({ db }: AutomationOptions) =>
  ({
    async 'notifier.automations.redeem'(params, request) {
      const { tenant_id: tenantId, automation_id: id } = params;
      let least: number | undefined;
      for (let tries = 1; tries <= mostTries; tries += 1) {
        const row = await found(db.manager, params);
        const at = await databaseTime(db.manager);
        const admission = await admissionNow(row, at, least, request);
        const outcome = await db.transaction(async (manager) => {
          await lockSlots(manager, tenantId);
          const held = await heldRevisions(manager, tenantId);
          // Else an emergency stop could be answered between the decision and this.
          if (!isSameRevision(held, admission.decided.revision)) return { least: held.tenant };
          return redeem(manager, params, admission, request);
        });
        if ('row' in outcome) return automationView(outcome.row);
        if ('refused' in outcome) throw new StrataError(outcome.refused);
        least = outcome.least;
        if (tries > 1) await delay(pauseMs);
      }
      throw new StrataError(
        'service_unavailable',
        `The newest configuration cannot be read, so ${id} is not redeemed. Try again.`,
      );
    },
  }) satisfies Handlers;

async function found(
  manager: EntityManager,
  { tenant_id, automation_id: id }: Params,
): Promise<AutomationRow> {
  const row = await manager.findOneBy(AutomationEntity, { id, tenant_id });
  if (!row) throw new StrataError('not_found', 'The tenant has no such automation.');
  return row;
}

async function admissionNow(
  { tenant_id, intent }: AutomationRow,
  at: Date,
  least: number | undefined,
  { call }: Request,
): Promise<Admission> {
  return call('config-resolver.admission', {
    tenant_id,
    ...(least !== undefined && { min_revision: least }),
    body: { ...intentOf(intent), at: at.toISOString() },
  });
}

/** Under the lock on the slots, with the revisions held that the admission is by. */
async function redeem(
  manager: EntityManager,
  params: Params,
  { decided }: Admission,
  request: Request,
): Promise<Outcome> {
  const { automation_id: id, body } = params;
  const row = await found(manager, params);
  const now = await clockTime(manager);
  const slotNow = await slotTime(manager);
  const refused = refusalOf(row, decided.decision === 'deny', body.action_digest, slotNow);
  if (refused === undefined)
    await manager.update(
      AutomationEntity,
      { id },
      { redeemed_at: now, redeemed_by: body.executor },
    );
  const event = {
    action: refused === undefined ? 'automation.redeemed' : 'automation.redeem_refused',
    tenant_id: row.tenant_id,
    target: id,
    payload: {
      executor: body.executor,
      action_digest: body.action_digest,
      ...(refused !== undefined && { refused }),
    },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  return refused === undefined
    ? { row: { ...row, redeemed_at: now, redeemed_by: body.executor } }
    : { refused };
}

/** What was consumed stays so, whatever became of the work. */
function refusalOf(
  row: AutomationRow,
  isStopped: boolean,
  digest: string,
  slotNow: Date,
): Exclude<Outcome, { row: unknown }>['refused'] | undefined {
  if (row.redeemed_at !== null) return 'grant_used';
  const isRunning = row.state === 'running' && row.expires_at !== null && slotNow < row.expires_at;
  if (!isRunning || isStopped) return 'automation_over';
  return digest === row.action_digest ? undefined : 'digest_mismatch';
}

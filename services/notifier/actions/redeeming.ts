/**
 * Redeeming: an executor asks, right before it acts, whether exactly this action may be done now,
 * and is told so once.
 */
import type { DataSource, EntityManager } from 'typeorm';
import { setTimeout as delay } from 'node:timers/promises';
import type { Handlers, Request } from '../../../shared/contract-runtime/request.ts';
import { auditFacts, recordEvents } from '../../../shared/commits/commit.ts';
import type { ParamsOf } from '../../../shared/contracts/index.ts';
import { StrataError } from '../../../shared/errors.ts';
import { automationView, isTooOld, type TimedAdmission } from '../rules/automation.ts';
import type { GrantClaims } from '../rules/grant.ts';
import { AutomationEntity, type AutomationRow } from '../schema.ts';
import { lockSlots } from '../stores/automations.ts';
import { clockTime, slotTime } from '../stores/clock.ts';
import { findAutomation, intentOf } from './automations.ts';
import type { Grants } from './granting.ts';
import {
  Moved,
  mostTries,
  newestAdmission,
  pauseMs,
  stateForCaller,
  type Decide,
} from './newest-decision.ts';

type Params = ParamsOf<'notifier.automations.redeem'>;
type Refusal = 'grant_used' | 'grant_invalid' | 'digest_mismatch' | 'automation_over';
type Outcome = { readonly row: AutomationRow } | { readonly refused: Refusal };

/** What the executor brings; `grant` is undefined where it brings none, null where it is none of ours. */
interface Brought {
  readonly digest: string | undefined;
  readonly grant: GrantClaims | null | undefined;
}

export const redeemActions = ({
  db,
  grants,
}: {
  readonly db: DataSource;
  readonly grants: Grants;
}) =>
  ({
    async 'notifier.automations.redeem'(params, request) {
      const { tenant_id: tenantId, body } = params;
      const brought = {
        digest: body.action_digest,
        grant: body.grant === undefined ? undefined : ((await grants.read(body.grant)) ?? null),
      };
      const decide = decideOn(params, request);
      let least: number | undefined;
      for (let tries = 1; tries <= mostTries; tries += 1) {
        const ahead = await decide(db.manager, least);
        const state = await stateForCaller(db.manager, tenantId, request);
        try {
          const outcome = await db.transaction(async (manager) => {
            await lockSlots(manager, tenantId);
            // Where the configuration changes all the time, it waits while this is decided.
            const decideAgain: Decide | undefined =
              tries > 1 ? (by) => decide(manager, by) : undefined;
            const admission = await newestAdmission(manager, tenantId, ahead, state, decideAgain);
            return redeem(manager, params, brought, admission, request);
          });
          if ('refused' in outcome) throw new StrataError(outcome.refused);
          return automationView(outcome.row);
        } catch (error) {
          if (!(error instanceof Moved)) throw error;
          least = error.held.tenant;
          if (tries > 1) await delay(pauseMs);
        }
      }
      throw new StrataError(
        'service_unavailable',
        'The newest configuration cannot be read, so nothing is redeemed. Try again.',
      );
    },
  }) satisfies Handlers;

/** What limits say of the automation at this moment; what it takes back is looked up once. */
function decideOn(params: Params, { call, caller }: Request) {
  const { tenant_id: tenantId, automation_id: id } = params;
  let isProven: boolean | undefined;
  return async (manager: EntityManager, least: number | undefined): Promise<TimedAdmission> => {
    const { intent } = await findAutomation(manager, tenantId, id, caller);
    const at = await clockTime(manager);
    const admission = await call('config-resolver.admission', {
      tenant_id: tenantId,
      ...(least !== undefined && { min_revision: least }),
      ...(isProven !== undefined && { is_proven: isProven }),
      body: { ...intentOf(intent), at: at.toISOString() },
    });
    isProven = admission.is_proven;
    return { ...admission, at };
  };
}

/** Under the lock on the slots, with the revisions held that the admission is by. */
async function redeem(
  manager: EntityManager,
  params: Params,
  brought: Brought,
  admission: TimedAdmission,
  request: Request,
): Promise<Outcome> {
  const { tenant_id: tenantId, automation_id: id, body } = params;
  const { decided } = admission;
  const row = await findAutomation(manager, tenantId, id, request.caller);
  const now = await clockTime(manager);
  if (isTooOld(admission, now)) throw new Moved(decided.revision);
  const slotNow = await slotTime(manager);
  const refused = refusalOf(row, decided.decision === 'deny', brought, slotNow);
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
      action_digest: brought.digest ?? brought.grant?.action_digest ?? null,
      ...(refused !== undefined && { refused }),
    },
  };
  await recordEvents(manager, [auditFacts(event, request)]);
  return refused === undefined
    ? { row: { ...row, redeemed_at: now, redeemed_by: body.executor } }
    : { refused };
}

/** What was consumed stays so, whatever became of the work. */
export function refusalOf(
  row: AutomationRow,
  isStopped: boolean,
  { digest, grant }: Brought,
  slotNow: Date,
): Refusal | undefined {
  if (row.redeemed_at !== null) return 'grant_used';
  const isRunning = row.state === 'running' && row.expires_at !== null && slotNow < row.expires_at;
  if (!isRunning || isStopped) return 'automation_over';
  if (grant !== undefined) {
    const isOurs = grant?.automation === row.id && grant.tenant === row.tenant_id;
    if (!isOurs) return 'grant_invalid';
    if (slotNow.getTime() >= grant.exp * 1000) return 'automation_over';
    if (grant.action_digest !== row.action_digest) return 'digest_mismatch';
  }
  if (digest === undefined) return grant ? undefined : 'digest_mismatch';
  return digest === row.action_digest ? undefined : 'digest_mismatch';
}

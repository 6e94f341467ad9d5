/**
 * Deciding by configuration that is certainly the newest, and stays so until a transaction ends:
 * what starts and what is redeemed comes before a change of the limits or goes by it.
 */
import type { EntityManager } from 'typeorm';
import type { DecisionReason } from '../../../shared/contracts/decide.ts';
import type { TimedAdmission } from '../rules/automation.ts';
import { heldRevisions, heldTenant, isDecidedBy, type Revisions } from '../stores/automations.ts';

export const mostTries = 20;
/** Until this node has observed a change of the platform. */
export const pauseMs = 50;

/** By configuration of at least this revision of the tenant. */
export type Decide = (least?: number) => Promise<TimedAdmission>;

/**
 * The configuration, or what budgets have left, changed between decision and transaction, or too
 * much time passed.
 */
export class Moved extends Error {
  readonly held: Revisions;
  /** The budgets that were found to ask for an approval; undefined where none was looked at. */
  readonly over: readonly DecisionReason[] | undefined;
  constructor(held: Revisions, over?: readonly DecisionReason[]) {
    super('moved');
    this.held = held;
    this.over = over;
  }
}

/**
 * What was decided ahead of the transaction, or what `decideAgain` says while the tenant's
 * configuration is kept as it is: where that changes all the time, nothing that was decided ahead
 * is by the newest. The platform's is never kept so: an emergency stop would wait for another node.
 * Throws `Moved` where the newest configuration may decide otherwise.
 */
export async function newestAdmission(
  manager: EntityManager,
  tenantId: string,
  ahead: TimedAdmission,
  decideAgain: Decide | undefined,
): Promise<TimedAdmission> {
  const admission = decideAgain ? await decideAgain(await heldTenant(manager, tenantId)) : ahead;
  const held = await heldRevisions(manager, tenantId);
  if (!(await isDecidedBy(manager, held, admission.decided.revision))) throw new Moved(held);
  return admission;
}

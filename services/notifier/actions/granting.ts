/** Grants of automations that run, and the keys that others verify them with. */
import type { DataSource } from 'typeorm';
import type { Caller } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import type { Settings } from '../../../shared/settings/settings.ts';
import { automationView, type Automation } from '../rules/automation.ts';
import { claimsOf, grantType, signed, verified, type GrantClaims } from '../rules/grant.ts';
import { ApprovalEntity, type AutomationRow } from '../schema.ts';
import { GrantKeys } from '../stores/grant-keys.ts';

export class Grants {
  readonly keys: GrantKeys;
  readonly #db: DataSource;
  readonly #settings: () => Settings;

  constructor(db: DataSource, settings: () => Settings) {
    this.keys = new GrantKeys(db, settings);
    this.#db = db;
    this.#settings = settings;
  }

  /**
   * The automation as this caller sees it: with its grant where that could also be redeemed by them.
   * Who may only look is given nothing that an executor may act by.
   */
  async answer(row: AutomationRow, { scopes }: Caller): Promise<Automation> {
    const view = automationView(row);
    const mayRedeem = scopes === undefined || scopes.includes('automations:write');
    if (row.state !== 'running' || !mayRedeem) return view;
    const { approval_id: id } = row;
    const approval =
      id === null
        ? null
        : await this.#db.manager.findOne(ApprovalEntity, {
            select: { id: true, approved_by: true, policy: true },
            where: { id, tenant_id: row.tenant_id },
          });
    const claims = claimsOf(row, approval, this.#settings().base_url);
    if (!claims) return view;
    const { signing } = await this.keys.now();
    return { ...view, grant: await signed(claims, grantType, signing) };
  }

  /** What a grant says, whether or not its time is up; undefined where it is none of ours. */
  async read(grant: string): Promise<GrantClaims | undefined> {
    const { find } = await this.keys.now();
    const claims = await verified(grant, grantType, this.#settings().base_url, find);
    // What our key has signed as this type is one that `answer` made.
    return claims as GrantClaims | undefined;
  }
}

export const grantActions = ({ keys }: Grants) =>
  ({
    async 'notifier.grants.keys'() {
      const { published } = await keys.now();
      return { keys: [...published] };
    },
  }) satisfies Handlers;

/** Grants of automations that run, and the keys that others verify them with. */
import type { JWTPayload } from 'jose';
import type { DataSource } from 'typeorm';
import { mayCall, type Caller } from '../../../shared/access.ts';
import type { Handlers } from '../../../shared/contract-runtime/request.ts';
import { contractTable } from '../../../shared/contracts/index.ts';
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
  async answer(row: AutomationRow, caller: Caller): Promise<Automation> {
    const view = automationView(row);
    const redeem = contractTable['notifier.automations.redeem'];
    const mayRedeem = mayCall(redeem, caller, { tenant_id: row.tenant_id });
    if (row.state !== 'running' || !mayRedeem) return view;
    const { approval_id: id } = row;
    const approval =
      id === null
        ? null
        : await this.#db.manager.findOne(ApprovalEntity, {
            select: { id: true, approved_by: true, policy: true },
            where: { id, tenant_id: row.tenant_id },
          });
    const claims = claimsOf(row, approval, this.issuer);
    return claims ? { ...view, grant: await this.sign(grantType, claims) } : view;
  }

  /** Of all that is signed here. */
  get issuer(): string {
    return this.#settings().base_url;
  }

  async sign(type: string, claims: object): Promise<string> {
    const { signing } = await this.keys.now();
    return signed({ iss: this.issuer, ...claims }, type, signing);
  }

  /** What was signed here as this type, whether or not its time is up. */
  async verify(type: string, token: string): Promise<JWTPayload | undefined> {
    const { find } = await this.keys.now();
    return verified(token, type, this.issuer, find);
  }

  /** What a grant says, whether or not its time is up; undefined where it is none of ours. */
  async read(grant: string): Promise<GrantClaims | undefined> {
    const claims = await this.verify(grantType, grant);
    // What our key has signed as this type is one that `answer` made.
    return claims as (JWTPayload & GrantClaims) | undefined;
  }
}

export const grantActions = ({ keys }: Grants) =>
  ({
    async 'notifier.grants.keys'() {
      const { published } = await keys.now();
      return { keys: [...published] };
    },
  }) satisfies Handlers;

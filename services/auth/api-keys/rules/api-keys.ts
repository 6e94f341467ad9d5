/** API keys as they are made and shown, whether people's own or those of service accounts. */
import { randomUUID } from 'node:crypto';
import { ApiKey, IssuedApiKey } from '../../../../shared/contracts/auth-api-keys.ts';
import type { KeyScope } from '../../../../shared/contracts/roles.ts';
import type { ParamsOf } from '../../../../shared/contracts/index.ts';
import { invalid } from '../../../../shared/errors.ts';
import { viewBy } from '../../../../shared/schema/view.ts';
import { apiKeyPrefix, createApiKeys, newApiKey } from '../../../../shared/security/api-keys.ts';
import type { Settings } from '../../../../shared/settings/settings.ts';
import { documentProblems } from '../../rules/narrowing.ts';
import type { ApiKeyRow, SessionRow } from '../../schema.ts';

export const dayMs = 86_400_000;
const defaultDays = 90;
const defaultScopes: KeyScope[] = ['config:read'];

export type ApiKeyOwner = Pick<
  ApiKeyRow,
  'user_id' | 'service_account_id' | 'tenant_id' | 'made_by'
>;

/** What a key inherits of the session that makes it. */
export const inheritedFrom = ({
  confined_to,
  method,
}: SessionRow): Pick<ApiKeyRow, 'confined_to' | 'made_with'> => ({
  confined_to,
  made_with: method,
});

export interface NewKey {
  readonly row: Omit<ApiKeyRow, 'confined_to' | 'made_with'>;
  /** The key itself: only here, since only its hash is stored. */
  readonly key: string;
}

export function makeApiKey(
  owner: ApiKeyOwner,
  asked: ParamsOf<'auth.api-key.create'>['body'],
  settings: Settings,
  now: Date,
): NewKey {
  const { name, scopes = defaultScopes, expires_in_days: days = defaultDays } = asked;
  const { narrowed_to: narrowedTo } = asked;
  const problems = documentProblems(narrowedTo, owner.tenant_id);
  if (problems.length > 0) throw invalid(problems);
  const id = randomUUID();
  const { key, secret } = newApiKey(id);
  const row = {
    ...owner,
    id,
    name,
    scopes,
    narrowed_to: narrowedTo ?? null,
    hash: createApiKeys(settings).hash(secret),
    created_at: now,
    expires_at: new Date(now.getTime() + days * dayMs),
    days,
    last_used_at: null,
  };
  return { row, key };
}

/** What the audit is told of a key. */
export const auditedFacts = ({ id, name, scopes, narrowed_to }: NewKey['row']) => ({
  key_id: id,
  name,
  scopes,
  ...(narrowed_to !== null && { narrowed_to }),
});

export const apiKeyView = (row: NewKey['row']) => ({
  ...viewBy(IssuedApiKey, row),
  prefix: apiKeyPrefix(row.id),
});

export const listedApiKey = (row: ApiKeyRow) => ({
  ...viewBy(ApiKey, row),
  prefix: apiKeyPrefix(row.id),
});

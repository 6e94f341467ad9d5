/** Names instead of ids, as far as whoever is signed in may know them. */
import { signal } from '@preact/signals';
import type { ResultOf } from '../shared/contracts/index.ts';
import { getAll } from './api.ts';
import { hasRole, tenant, user } from './session.ts';

type Member = ResultOf<'tenant-config.members.list'>['items'][number];
type Account = ResultOf<'tenant-config.service-accounts.list'>['items'][number];

const names = signal<ReadonlyMap<string, string>>(new Map());
let loadedFor: string | undefined;

/**
 * Once for each tenant, and again where somebody came; only its administrators may list its members.
 */
export async function learnNames({ isAgain = false } = {}): Promise<void> {
  const id = tenant.value?.id;
  if (id === undefined || (id === loadedFor && !isAgain) || !hasRole('tenant_admin')) return;
  loadedFor = id;
  try {
    const [members, accounts] = await Promise.all([
      getAll<Member>(`/tenants/${id}/users`),
      getAll<Account>(`/tenants/${id}/service-accounts`),
    ]);
    // Those of a tenant that was left come too late.
    if (id !== loadedFor) return;
    names.value = new Map([
      ...accounts.map((each) => [each.id, each.name] as const),
      ...members.map((each) => [each.user_id, each.display_name ?? each.email] as const),
    ]);
  } catch {
    // Ids are shown then.
    if (id === loadedFor) loadedFor = undefined;
  }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** What to call whoever an answer names by id; short where no name is known. */
export function nameOf(id: string | null | undefined): string {
  if (id === null || id === undefined) return '–';
  if (id === tenant.value?.id) return tenant.value.name;
  if (id === user.value?.id) return user.value.display_name ?? user.value.email;
  const known = names.value.get(id);
  if (known !== undefined) return known;
  return uuid.test(id) ? `${id.slice(0, 8)}…` : id;
}

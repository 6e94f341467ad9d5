/**
 * What people read in place of an id: names of persons and service accounts, as each tenant and the
 * platform know them.
 *
 * | Realm | Knows | By |
 * |---|---|---|
 * | a tenant | who has signed in to it, and its service accounts | display name, else address |
 * | a tenant | platform administrators who acted on it | `platformName`, and nothing of them |
 * | the platform | everybody who has signed in | display name, else address |
 *
 * A reader's page is named from the reader's realm alone, so no name or address crosses from one
 * tenant to another, whatever ids a document or an event has. Ids and hashes stay the proof of who
 * it was; a name is what they were called when they last signed in there, and is forgotten by
 * deleting its row. Writes do not note anything, but for platform administrators on tenants.
 */
import { LRUCache } from 'lru-cache';
import type { EntityManager } from 'typeorm';
import { upTo } from '../concurrency/growing-cache.ts';
import { isPlatformAdmin, type Caller } from '../access.ts';
import { isUuid } from '../schema/uuid.ts';

/** A tenant's id, or `platformRealm`. */
export type Realm = string;
export const platformRealm: Realm = 'platform';

/** How a tenant reads the name of whoever acts for the platform. */
export const platformName = 'Platform administrator';

export const realmOf = (tenantId: string | null): Realm => tenantId ?? platformRealm;

export interface Actor {
  readonly id: string;
  readonly name: string;
  /** An e-mail address in lower case, to look for; null for what is no person. */
  readonly address: string | null;
}

/** In characters. A name may come from a provider of sign-ins, which may say anything. */
const maxNameLength = 200;

const shownName = (name: string): string =>
  [...name.replaceAll(/[\p{Control}\p{Format}\s]+/gu, ' ').trim()].slice(0, maxNameLength).join('');

/**
 * Notes what the actor is called in these realms from now on. Writes nothing where that is known
 * already.
 */
export async function noteActor(
  manager: EntityManager,
  realms: readonly Realm[],
  { id, name, address }: Actor,
): Promise<void> {
  const shown = shownName(name) || shownName(address ?? id);
  await manager.query(
    `INSERT INTO strata.actor_names (realm, actor_id, name, address)
     SELECT realm, $2::text, $3::text, $4::text FROM unnest($1::text[]) AS named (realm)
     WHERE NOT EXISTS (
       SELECT FROM strata.actor_names AS known
       WHERE known.realm = named.realm AND actor_id = $2 AND name = $3 AND address IS NOT DISTINCT FROM $4)
     ON CONFLICT (realm, actor_id) DO UPDATE SET (name, address) = ROW (excluded.name, excluded.address)`,
    [realms, id, shown, address],
  );
  for (const realm of realms) remembered.delete(keyOf(realm, id));
}

/**
 * Notes who acts on a tenant for the platform, without a word of who that is; a member keeps the
 * name that the tenant knows.
 */
export async function noteIfOfPlatform(
  manager: EntityManager,
  realm: Realm,
  caller: Caller,
): Promise<void> {
  const isOfPlatform =
    caller.type === 'user' && isPlatformAdmin(caller) && caller.tenant_id !== realm;
  if (realm === platformRealm || !isOfPlatform) return;
  await manager.query(
    `INSERT INTO strata.actor_names (realm, actor_id, name, address)
     VALUES ($1, $2, $3, NULL) ON CONFLICT DO NOTHING`,
    [realm, caller.id, platformName],
  );
}

const keyOf = (realm: Realm, id: string): string => `${realm} ${id}`;
/**
 * Names that were read a moment ago, so that writes and pages seldom ask for them. What is not
 * known is not remembered.
 */
const remembered = new LRUCache<string, string>({ ...upTo(10_000), ttl: 60_000 });

export const forgetNames = (): void => remembered.clear();

/** Operators and services are their ids. */
const hasName = isUuid;

/** The names of some actors in a realm. */
export interface Names {
  /** Null for an id that the realm does not know. */
  of(id: string): string | null;
}

/** Asks once for all that are not remembered. */
export async function namesIn(
  manager: EntityManager,
  realm: Realm,
  ids: readonly string[],
): Promise<Names> {
  const found = await namesInRealms(
    manager,
    ids.map((id) => ({ realm, id })),
  );
  return { of: (id) => found.of(realm, id) };
}

/** The same for actors of several realms. */
export async function namesInRealms(
  manager: EntityManager,
  wanted: readonly { readonly realm: Realm; readonly id: string }[],
): Promise<{ of(realm: Realm, id: string): string | null }> {
  const names = new Map<string, string>();
  const unknown = new Map<string, { realm: Realm; id: string }>();
  for (const { realm, id } of wanted.filter((each) => hasName(each.id))) {
    const key = keyOf(realm, id);
    const name = remembered.get(key);
    if (name === undefined) unknown.set(key, { realm, id });
    else names.set(key, name);
  }
  if (unknown.size > 0) {
    const asked = [...unknown.values()];
    const rows = await manager.query<{ realm: Realm; actor_id: string; name: string }[]>(
      `SELECT realm, actor_id, name FROM strata.actor_names
       JOIN unnest($1::text[], $2::text[]) AS asked (realm, actor_id) USING (realm, actor_id)`,
      [asked.map(({ realm }) => realm), asked.map(({ id }) => id)],
    );
    for (const { realm, actor_id: id, name } of rows) {
      remembered.set(keyOf(realm, id), name);
      names.set(keyOf(realm, id), name);
    }
  }
  return { of: (realm, id) => (hasName(id) ? (names.get(keyOf(realm, id)) ?? null) : id) };
}

/** The ids of those who have the address in the realm; none where nobody has. */
export async function idsByAddress(
  manager: EntityManager,
  realm: Realm,
  address: string,
): Promise<string[]> {
  const rows = await manager.query<{ actor_id: string }[]>(
    'SELECT actor_id FROM strata.actor_names WHERE realm = $1 AND address = $2',
    [realm, address.trim().toLowerCase()],
  );
  return rows.map(({ actor_id: id }) => id);
}

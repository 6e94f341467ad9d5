/** Pairs of revisions: one of the tenant, one of the platform. */
import { isObject } from './json.ts';
import type { Revision } from './types.ts';

export const nothing: Revision = { tenant: 0, platform: 0 };

/** Whether nothing of `other` is newer. */
export const covers = (revision: Revision, other: Revision): boolean =>
  revision.tenant >= other.tenant && revision.platform >= other.platform;

/** The newer of both, in each part. */
export const latest = (a: Revision, b: Revision): Revision => ({
  tenant: Math.max(a.tenant, b.tenant),
  platform: Math.max(a.platform, b.platform),
});

/** As ids of events and X-Min-Revision have it. */
export const textOf = ({ tenant, platform }: Revision): string =>
  platform === 0 ? String(tenant) : `${tenant}.${platform}`;

/** Of JSON that should have one; undefined where it has none. */
export function revisionOf(value: unknown): Revision | undefined {
  const { tenant, platform } = isObject(value) ? value : {};
  return isCount(tenant) && isCount(platform) ? { tenant, platform } : undefined;
}
const isCount = (value: unknown): value is number => Number.isSafeInteger(value);

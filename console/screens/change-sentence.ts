/** A change of a document in a plain sentence: what became of which value, and for what. */
import { namesOf } from '../../shared/schema/json-pointer.ts';
import type { Difference } from '../../shared/schema/diff.ts';
import { shortJson } from '../format.ts';

/** Parts of a path that say where a value counts, and are no name of it. */
const places: ReadonlyMap<string | undefined, string> = new Map([
  ['global_settings', 'for all services'],
  ['default_settings', 'by default'],
]);

/** Names that do not fit on a line are given without their values, which are below the change. */
const longestMembers = 64;
const mostNamed = 4;
function membersOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  if (JSON.stringify(value).length <= longestMembers) return undefined;
  const names = Object.keys(value);
  const more = names.length - mostNamed;
  const named = names.slice(0, mostNamed).join(', ');
  return more > 0 ? `${named} and ${more} more` : named;
}

/** What is at a place, and for what, such as "max_cost_impact_auto for cloud_run". */
export function subjectOf(path: string): string {
  const names = namesOf(path);
  const [place, type, ...inner] = names;
  const isOverride = place === 'service_overrides' && type !== undefined && inner.length > 0;
  if (isOverride) return `${inner.join('.')} for ${type}`;
  const where = places.get(place);
  return where === undefined || names.length === 1
    ? names.join('.')
    : `${names.slice(1).join('.')} ${where}`;
}

/** Such as "lowered max_cost_impact_auto for cloud_run from 8 to 2". */
export function sentenceOf({ path, before, after }: Difference): string {
  if (path === '') return before === undefined ? 'made all of it' : 'removed all of it';
  const subject = subjectOf(path);
  const shown = (value: unknown): string => shortJson(value, longestMembers);
  if (before === undefined) {
    const members = membersOf(after);
    return members ? `set ${subject} with ${members}` : `set ${subject} to ${shown(after)}`;
  }
  if (after === undefined) {
    const members = membersOf(before);
    return members
      ? `removed ${subject}, which had ${members}`
      : `removed ${subject}, which was ${shown(before)}`;
  }
  if (typeof before === 'number' && typeof after === 'number')
    return `${after < before ? 'lowered' : 'raised'} ${subject} from ${before} to ${after}`;
  return `changed ${subject} from ${shown(before)} to ${shown(after)}`;
}

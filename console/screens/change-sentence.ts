/** A change of a document in a plain sentence: what became of which value, and for what. */
import { namesIn, shortJson, type Change } from '../format.ts';

/** Parts of a path that say where a value counts, and are no name of it. */
const places: Readonly<Record<string, string>> = {
  global_settings: 'for all services',
  default_settings: 'by default',
};

const hasMembers = (value: unknown): value is object =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.keys(value).length > 0;

const mostNamed = 4;
/** Their names; the values are below, where the change is opened. */
function membersOf(value: object): string {
  const names = Object.keys(value);
  const more = names.length - mostNamed;
  const named = names.slice(0, mostNamed).join(', ');
  return more > 0 ? `${named} and ${more} more` : named;
}

/** Such as "lowered max_cost_impact_auto for cloud_run from 8 to 2". */
export function sentenceOf({ path, before, after }: Change): string {
  const names = namesIn(path);
  if (names.length === 0) return before === undefined ? 'made all of it' : 'removed all of it';
  const [place, type, ...inner] = names;
  const isOverride = place === 'service_overrides' && type !== undefined && inner.length > 0;
  const where = isOverride ? `for ${type}` : (places[place!] ?? '');
  const own = isOverride ? inner : where === '' || names.length === 1 ? names : names.slice(1);
  const what = [own.join('.'), names.length === 1 ? '' : where].filter((each) => each !== '');
  const subject = what.join(' ');
  const shown = (value: unknown): string => shortJson(value, 40);
  if (before === undefined)
    return hasMembers(after)
      ? `set ${subject} with ${membersOf(after)}`
      : `set ${subject} to ${shown(after)}`;
  if (after === undefined)
    return hasMembers(before)
      ? `removed ${subject}, which had ${membersOf(before)}`
      : `removed ${subject}, which was ${shown(before)}`;
  if (typeof before === 'number' && typeof after === 'number')
    return `${after < before ? 'lowered' : 'raised'} ${subject} from ${before} to ${after}`;
  return `changed ${subject} from ${shown(before)} to ${shown(after)}`;
}

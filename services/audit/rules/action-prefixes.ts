/** Which actions are asked for. */

/**
 * The beginnings of their names, as people know them: `tenant.member` finds `tenant.member_invited`,
 * with an asterisk or without; commas are between several. Nothing, or an asterisk, is all.
 */
export function prefixesOf(actions: string): string[] {
  const names = actions.split(',').map((each) => each.trim());
  const named = names.filter((name) => name !== '').map((name) => name.replace(/\*$/, ''));
  return named.length === 0 ? [''] : named;
}

/** In SQL, of events `e`, with the parameter `prefixes`. */
export const hasPrefix =
  'EXISTS (SELECT FROM unnest(:prefixes::text[]) p WHERE starts_with(e.action, p))';

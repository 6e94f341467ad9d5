/** HTML for mails and for the page of a decision link, escaped by default. */

/**
 * Text that is markup already. Only the tag below makes one, so that data which looks like one is
 * escaped all the same.
 */
class Markup {
  readonly #markup: string;
  constructor(markup: string) {
    this.#markup = markup;
  }
  toString(): string {
    return this.#markup;
  }
}
export type Html = Markup;

const entities: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
]);
export const escape = (value: unknown): string =>
  String(value).replaceAll(/[&<>"']/g, (character) => entities.get(character) ?? character);

const markupOf = (value: unknown): string =>
  value instanceof Markup ? value.toString() : escape(value);

/**
 * Template tag. Values are escaped for element content and quoted attributes; markup of this tag,
 * and lists of it, go in as they are.
 */
export function html(
  strings: TemplateStringsArray,
  ...values: (string | number | Html | readonly Html[])[]
): Html {
  const parts = values.map((value) =>
    Array.isArray(value) ? value.map(markupOf).join('') : markupOf(value),
  );
  return new Markup(String.raw({ raw: strings }, ...parts));
}

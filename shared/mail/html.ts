/** Text that is markup already. Only the tag below makes one, so data that looks like it is escaped all the same. */
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

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escaped = (value: string | number): string =>
  String(value).replaceAll(/[&<>"']/g, (character) => entities[character]!);

/** Escapes every value for element content and quoted attributes; markup made by this tag, and lists of it, go in as they are. */
export function html(
  strings: TemplateStringsArray,
  ...values: (string | number | Html | readonly Html[])[]
): Html {
  const parts = values.map((value) => {
    if (Array.isArray(value))
      return value
        .map((each) => (each instanceof Markup ? String(each) : escaped(String(each))))
        .join('');
    return value instanceof Markup ? String(value) : escaped(value as string | number);
  });
  return new Markup(String.raw({ raw: strings }, ...parts));
}

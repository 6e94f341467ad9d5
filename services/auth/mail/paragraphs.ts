/** Mails of plain sentences: the text, and HTML that says the same. */
import { html, type Html } from '../../../shared/mail/html.ts';
import type { Mail } from '../../../shared/mail/mailer.ts';

/** What stands alone in its line may be a link. */
type Line = string | { readonly link: string };

const textOf = (line: Line): string => (typeof line === 'string' ? line : line.link);
const markupOf = (line: Line, index: number): Html => {
  const lineBreak = index === 0 ? '' : html`<br>`;
  return typeof line === 'string'
    ? html`${lineBreak}${line}`
    : html`${lineBreak}<a href="${line.link}">${line.link}</a>`;
};

export function mailOf(
  to: string,
  subject: string,
  paragraphs: readonly (readonly Line[])[],
): Mail {
  const texts = paragraphs.map((lines) => lines.map(textOf).join('\n'));
  const markup = paragraphs.map((lines) => html`<p>${lines.map(markupOf)}</p>\n`);
  return { to, subject, text: `${texts.join('\n\n')}\n`, html: String(html`${markup}`) };
}

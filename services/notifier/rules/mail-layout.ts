/** How a mail looks, as text and as HTML. */
import { html, type Html } from '../../../shared/mail/html.ts';

/** One recipient's own links. */
export interface DecisionUrls {
  readonly approve_url: string;
  readonly deny_url: string;
}
export interface RenderedMail {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** Texts without line breaks, but for the description; what is empty is left out. */
export interface MailParts {
  readonly subject: string;
  readonly says: string;
  readonly title: string;
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly description: string;
  readonly links: DecisionUrls | undefined;
  readonly branding: {
    readonly above: string;
    readonly below: readonly string[];
    readonly color: string;
    readonly logo: string;
  };
}

const controls = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
const lineBreak = /\r\n|[\n\v\f\r\u0085\p{Zl}\p{Zp}]/u;
/** Control characters would end a header or pose as another line. */
export const oneLine = (text: string): string => text.replaceAll(controls, ' ').trim();

export const layOut = (parts: MailParts): RenderedMail => ({
  subject: parts.subject,
  text: asText(parts),
  html: String(asHtml(parts)),
});

const warning = 'These links are yours alone: whoever has them can decide.';

function asText({ says, title, rows, description, links, branding }: MailParts): string {
  return `${[
    // No value begins a line: it could pose as a line of the mail, such as another link.
    branding.above,
    says,
    [['Title', title], ...rows].map(([label, value]) => `${label}: ${value}`).join('\n'),
    description === ''
      ? ''
      : description
          .split(lineBreak)
          .map((line) => `> ${line.replaceAll(controls, ' ')}`)
          .join('\n'),
    links ? `Approve: ${links.approve_url}\nDeny: ${links.deny_url}\n\n${warning}` : '',
    branding.below.join('\n'),
  ]
    .filter((paragraph) => paragraph !== '')
    .join('\n\n')}\n`;
}

const button = (url: string, label: string, color: string): Html => {
  const style = `display:inline-block;margin-right:12px;padding:10px 20px;border-radius:4px;background:${color};color:#ffffff;text-decoration:none`;
  return html`<a href="${url}" style="${style}">${label}</a>`;
};
const small = (line: string): Html => html`<p style="color:#555555;font-size:13px">${line}</p>`;

function asHtml({ subject, says, title, rows, description, links, branding }: MailParts): Html {
  const quote =
    'margin:16px 0;padding-left:12px;border-left:3px solid #cccccc;white-space:pre-wrap';
  const decide =
    links &&
    html`<p>
      ${button(links.approve_url, 'Approve', branding.color)}${button(links.deny_url, 'Deny', '#555555')}
    </p>`;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${subject}</title>
      </head>
      <body style="margin:0;padding:24px;font-family:sans-serif;color:#1a1a1a">
        ${branding.logo === '' ? '' : html`<p><img src="${branding.logo}" alt="" height="40" /></p>`}
        ${branding.above === '' ? '' : html`<p style="color:${branding.color};font-weight:bold">${branding.above}</p>`}
        <p>${says}</p>
        <h1 style="font-size:20px">${title}</h1>
        <table style="border-collapse:collapse">
          ${rows.map(
            ([label, value]) =>
              html` <tr>
                <th style="padding:2px 16px 2px 0;text-align:left">${label}</th>
                <td>${value}</td>
              </tr>`,
          )}
        </table>
        ${description === '' ? '' : html`<blockquote style="${quote}">${description}</blockquote>`}
        ${decide ? [decide, small(warning)] : ''} ${branding.below.map(small)}
      </body>
    </html> `;
}

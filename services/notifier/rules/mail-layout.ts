/** How a mail of the notifier looks, as text and as HTML. */
import { html, type Html } from '../../../shared/mail/html.ts';

/** One recipient's own links, which decide without signing in. */
export interface DecisionUrls {
  readonly approve_url: string;
  readonly deny_url: string;
  /** The approval in the console, for recipients with an account. */
  readonly console_url?: string;
}
export interface RenderedMail {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/** Each text is one line, except the description. What is empty is left out. */
export interface MailParts {
  readonly subject: string;
  /** What the mail is about: its first sentence. */
  readonly says: string;
  readonly title: string;
  readonly rows: readonly (readonly [label: string, value: string])[];
  readonly description: string;
  readonly links: DecisionUrls | undefined;
  readonly branding: {
    readonly above: string;
    readonly below: readonly string[];
    /** #rrggbb */
    readonly color: string;
    /** An https URL. */
    readonly logo: string;
  };
}

/** Of the button that approves, where the tenant has no color of its own. */
export const defaultColor = '#1f4fbf';

const controls = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
export const lineBreak = /\r\n|[\n\v\f\r\u0085\p{Zl}\p{Zp}]/u;
/**
 * The text without control characters and line breaks, which would end a header or look like
 * another line of the mail.
 */
export const oneLine = (text: string): string => text.replaceAll(controls, ' ').trim();

export const layOut = (parts: MailParts): RenderedMail => ({
  subject: parts.subject,
  text: asText(parts),
  html: String(asHtml(parts)),
});

const warning = 'These links are yours alone: anyone who has them can decide.';

const inConsole = ({ console_url: url }: DecisionUrls): string =>
  url === undefined ? '' : `\nIn the console: ${url}`;

function asText({ says, title, rows, description, links, branding }: MailParts): string {
  // A value that began a line could look like a line of ours, such as another link: each stands
  // behind a label or a quote mark.
  const table = [['Title', title], ...rows].map(([label, value]) => `${label}: ${value}`);
  const quote = description.split(lineBreak).map((line) => `> ${line.replaceAll(controls, ' ')}`);
  const paragraphs = [
    branding.above,
    says,
    table.join('\n'),
    description === '' ? '' : quote.join('\n'),
    links
      ? `Approve: ${links.approve_url}\nDeny: ${links.deny_url}${inConsole(links)}\n\n${warning}`
      : '',
    branding.below.join('\n'),
  ];
  return `${paragraphs.filter((paragraph) => paragraph !== '').join('\n\n')}\n`;
}

const button = (url: string, label: string, color: string): Html => {
  const style = `display:inline-block;margin-right:12px;padding:10px 20px;border-radius:4px;background:${color};color:#ffffff;text-decoration:none`;
  return html`<a href="${url}" style="${style}">${label}</a>`;
};
const small = (line: string): Html => html`<p style="color:#555555;font-size:13px">${line}</p>`;

function asHtml({ subject, says, title, rows, description, links, branding }: MailParts): Html {
  const quote =
    'margin:16px 0;padding-left:12px;border-left:3px solid #cccccc;white-space:pre-wrap';
  const buttons = links && [
    button(links.approve_url, 'Approve', branding.color),
    button(links.deny_url, 'Deny', '#555555'),
    links.console_url === undefined
      ? html``
      : html`<a href="${links.console_url}">Open in the console</a>`,
  ];
  const logo = html`<p><img src="${branding.logo}" alt="" height="40"></p>`;
  const above = html`<p style="color:${branding.color};font-weight:bold">${branding.above}</p>`;
  const row = ([label, value]: readonly [string, string]): Html => html`
<tr><th style="padding:2px 16px 2px 0;text-align:left">${label}</th><td>${value}</td></tr>`;
  return html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>${subject}</title></head>
<body style="margin:0;padding:24px;font-family:sans-serif;color:#1a1a1a">
${branding.logo === '' ? '' : logo}
${branding.above === '' ? '' : above}
<p>${says}</p>
<h1 style="font-size:20px">${title}</h1>
<table style="border-collapse:collapse">${rows.map(row)}
</table>
${description === '' ? '' : html`<blockquote style="${quote}">${description}</blockquote>`}
${buttons ? [html`<p>${buttons}</p>`, small(warning)] : ''}
${branding.below.map(small)}
</body>
</html>
`;
}

/** The page behind the links in an approval mail. */
import { hash } from 'node:crypto';
import type { ResultOf } from '../../shared/contracts/index.ts';
import type { ErrorResponse } from '../../shared/errors.ts';
import { html, type Html } from '../../shared/mail/html.ts';
import { readableJson } from '../../shared/schema/readable-json.ts';
import { minuteOf } from '../../shared/schema/moment.ts';

export type DecisionView = ResultOf<'notifier.links.show'>;

const style = html`
:root { color-scheme: light dark; --ink: #1b1f24; --muted: #57606a; --line: #d5dae0; --paper: #ffffff; --ground: #f3f5f7; --accent: #1f4fbf; --on-accent: #ffffff; --deny: #a4161a; --on-deny: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebef; --muted: #a4adb8; --line: #3a424d; --paper: #1a1f26; --ground: #101318; --accent: #8fb0ff; --on-accent: #0b1533; --deny: #ff9b9b; --on-deny: #3a0609; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 24px 16px; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 40rem; margin: 0 auto; padding: 24px; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.tenant { margin: 0 0 4px; color: var(--muted); overflow-wrap: anywhere; unicode-bidi: isolate; }
h1 { margin: 0 0 16px; font-size: 1.375rem; line-height: 1.3; overflow-wrap: anywhere; unicode-bidi: isolate; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: 8px 16px; margin: 0; padding: 16px 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
dt { color: var(--muted); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; unicode-bidi: isolate; }
a { color: var(--accent); }
.number { font-variant-numeric: tabular-nums; }
pre { margin: 0; font: 0.875rem/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
ul { margin: 0; padding: 0; list-style: none; }
.description { margin: 16px 0; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
.note { margin: 16px 0 0; }
.state { margin: 16px 0; font-weight: 600; }
button { margin-top: 16px; padding: 12px 24px; border: 0; border-radius: 4px; background: var(--accent); color: var(--on-accent); font: inherit; font-weight: 600; cursor: pointer; }
label { display: block; margin-top: 16px; color: var(--muted); }
textarea { display: block; width: 100%; margin-top: 4px; padding: 8px; border: 1px solid var(--line); border-radius: 4px; background: var(--paper); color: var(--ink); font: inherit; }
form button { margin-right: 12px; }
summary { margin-top: 16px; padding: 12px 0; font-weight: 600; cursor: pointer; }
button.deny { background: var(--deny); color: var(--on-deny); }
button:focus-visible { outline: 3px solid var(--ink); outline-offset: 2px; }
@media (max-width: 30rem) {
  body { padding: 0; }
  main { padding: 16px; border: 0; border-radius: 0; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 12px; }
  dd:last-child { margin-bottom: 0; }
  button { width: 100%; }
}
`;
const styleHash = hash('sha256', String(style), 'base64');

/** The page loads nothing, runs nothing, and has the one style of above. */
export const decisionPagePolicy = `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;

/**
 * What somebody sees who follows such a link: a button that decides, or how it was decided. Works
 * without scripts. Looking at it decides nothing, since mail scanners follow links, too.
 */
export function decisionPage(view: DecisionView): string {
  const { title, tenant_name: tenant, description } = view;
  const isOpen = view.state === 'pending';
  return pageOf(
    title,
    html`<p class="tenant">${tenant}</p>
<h1>${title}</h1>
${isOpen ? '' : html`<p class="state">It is ${view.state}.</p>`}
<dl>${rowsOf(view).map(row)}
</dl>
${description === null ? '' : html`<p class="description">${description}</p>`}
${isOpen ? openPart(view) : ''}`,
  );
}

/**
 * What somebody sees whose link decides nothing: it has expired, say, they asked for the approval
 * themselves, or the button was pressed twice, of which browsers show the second answer.
 */
export function refusedLinkPage({ detail, request_id: requestId }: ErrorResponse['body']): string {
  const title = 'Nothing is decided by this';
  const again = detail.code === 'not_found' ? '' : html`<a href="">Look at it again</a> · `;
  return pageOf(
    title,
    html`<h1>${title}</h1>
<p class="state">${detail.message}</p>
<p>${again}<a href="../console">Open the console</a></p>
<p class="note tenant">${detail.code} · request ${requestId}</p>`,
  );
}

const pageOf = (title: string, content: Html): string =>
  String(html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${style}</style></head>
<body>
<main>
${content}
</main>
</body>
</html>
`);

type Row = readonly [label: string, value: string | number | Html];
const row = ([label, value]: Row): Html => html`
<dt>${label}</dt><dd>${value}</dd>`;

/** Without what the approval does not say. */
function rowsOf(view: DecisionView): Row[] {
  const { cost_impact: cost, cost_currency: currency = '', asked_because: reasons } = view;
  const { resource, required, approved_by: approvers } = view;
  const counted = `${approvers.length} of ${required}`;
  const rows: readonly (Row | undefined)[] = [
    ['Action', view.action],
    ['Risk', view.risk_level],
    resource === null ? undefined : ['Resource', resourceOf(resource)],
    cost === null
      ? undefined
      : ['Cost impact', html`<span class="number">${cost}</span> ${currency}`],
    reasons === undefined ? undefined : ['Why it asks', reasons.join(' ')],
    view.service_id === undefined ? undefined : ['Service', view.service_id],
    view.service_type === undefined ? undefined : ['Service type', view.service_type],
    view.agent_type === undefined ? undefined : ['Agent', view.agent_type],
    view.metadata ? ['Parameters', resourceOf(view.metadata)] : undefined,
    ['Asked by', askerOf(view.requested_by)],
    ['Approved so far', approvers.length === 0 ? counted : approversOf(approvers, counted)],
  ];
  return rows.filter((each) => each !== undefined);
}

const resourceOf = (resource: NonNullable<DecisionView['resource']>): string | Html =>
  typeof resource === 'string' ? resource : html`<pre>${readableJson(resource, 2)}</pre>`;

function askerOf({ id, name, api_key: key }: DecisionView['requested_by']): string {
  const who = name ?? id;
  return key === null ? who : `${who}, with the API key ${key.name}`;
}

function approversOf(approvers: DecisionView['approved_by'], counted: string): Html {
  const items = approvers.map(({ name, at, comment }) => {
    const said = comment === null || comment === '' ? '' : html`: ${comment}`;
    return html`<li>${name}, ${minuteOf(at)}${said}</li>`;
  });
  return html`${counted}<ul>${items}</ul>`;
}

/** The longest comment that a decision takes, in characters. */
const longestComment = 2000;

/**
 * A link that approves has both answers, so that who opens the wrong one of two need not go back; one
 * that denies has its own. What is critical is approved in two steps.
 */
function openPart({
  decision,
  expires_at: until,
  what_happens: happens,
  ...view
}: DecisionView): Html {
  const missing = view.required - view.approved_by.length;
  if (decision === 'approve' && view.has_approved)
    return html`<p class="state">You have approved it. It needs ${missing} more.</p>`;
  const isCritical = decision === 'approve' && view.risk_level === 'critical';
  const confirm = html`<details><summary class="approve">Approve…</summary>
<p class="note">This is critical. ${happens?.approve ?? ''}</p>
<button class="approve" name="decision" value="approve" type="submit">Approve it</button></details>`;
  const approve = html`<button class="approve" name="decision" value="approve" type="submit">Approve</button>`;
  return html`<dl>${happensRows(happens).map(row)}
</dl>
<p class="note">${happens ? '' : `Open until ${minuteOf(until)}. `}Nothing has happened yet.</p>
<form method="post">
<label>Comment<textarea name="comment" rows="2" maxlength="${longestComment}"></textarea></label>
${decision === 'deny' ? '' : isCritical ? confirm : approve}
<button class="deny" name="decision" value="deny" type="submit">Deny</button>
</form>
${decision === 'deny' ? html`<p class="note">The other link of the mail approves.</p>` : ''}`;
}

const happensRows = (happens: DecisionView['what_happens']): Row[] =>
  happens
    ? [
        ['If you approve', happens.approve],
        ['If you deny', happens.deny],
        ['If no one decides', happens.silence],
      ]
    : [];

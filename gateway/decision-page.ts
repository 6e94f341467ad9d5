import type { ResultOf } from '../shared/contracts/index.ts';
import { html } from '../shared/mail/html.ts';

export type DecisionView = ResultOf<'notifier.links.show'>;

/** What somebody sees who follows the link of a mail: a button that decides, or how it was decided. Works without scripts. */
export function decisionPage({
  decision,
  title,
  action,
  risk_level: risk,
  description,
  state,
  expires_at: expires,
}: DecisionView): string {
  const verb = decision === 'approve' ? 'Approve' : 'Deny';
  const pending = html`<p>Open until ${expires.slice(0, 16).replace('T', ' ')} UTC. Nothing has happened yet.</p>
<form method="post"><button type="submit">${verb}</button></form>`;
  return String(html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title></head>
<body style="max-width:40em;margin:3em auto;padding:0 1em;font-family:sans-serif">
<h1>${title}</h1>
<p>Action ${action}, risk ${risk}</p>
${description === null ? html`` : html`<p style="white-space:pre-wrap">${description}</p>`}
${state === 'pending' ? pending : html`<p>It is ${state}.</p>`}
</body>
</html>
`);
}

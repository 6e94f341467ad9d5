/** The page behind the links in an approval mail. */
import type { ResultOf } from '../shared/contracts/index.ts';
import { html } from '../shared/mail/html.ts';

export type DecisionView = ResultOf<'notifier.links.show'>;

/**
 * What somebody sees who follows such a link: a button that decides, or how it was decided. Works without scripts. Looking at it
 * decides nothing, since mail scanners follow links, too.
 */
export function decisionPage(view: DecisionView): string {
  const { title, action, risk_level: risk, description, state } = view;
  return String(html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title></head>
<body style="max-width:40em;margin:3em auto;padding:0 1em;font-family:sans-serif">
<h1>${title}</h1>
<p>Action ${action}, risk ${risk}</p>
${description === null ? html`` : html`<p style="white-space:pre-wrap">${description}</p>`}
${state === 'pending' ? openPart(view) : html`<p>It is ${state}.</p>`}
</body>
</html>
`);
}

function openPart({ decision, expires_at: expiresAt }: DecisionView) {
  const verb = decision === 'approve' ? 'Approve' : 'Deny';
  // From 2026-01-31T12:00:00.000Z to 2026-01-31 12:00.
  const until = expiresAt.slice(0, 16).replace('T', ' ');
  return html`<p>Open until ${until} UTC. Nothing has happened yet.</p>
<form method="post"><button type="submit">${verb}</button></form>`;
}

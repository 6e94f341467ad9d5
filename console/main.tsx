/**
 * Starts the console: takes the secret of a mailed link, finds out who is signed in, and shows the
 * screen of the address.
 */
import { render } from 'preact';
import { followLinks, takeLinkToken } from './address.ts';
import { keepFocus } from './focus.ts';
import { renewTimes } from './inline.tsx';
import { renew } from './session.ts';
import { App, cannotStart } from './app.tsx';
import { applyTheme } from './theme.ts';

applyTheme();
const linkToken = takeLinkToken();
followLinks();
keepFocus();
renewTimes();
render(<App linkToken={linkToken} />, document.getElementById('app')!);
// Without https there are no cookies to continue with, nor locks to take turns by; the page says so.
if (isSecureContext) renew().catch(cannotStart);

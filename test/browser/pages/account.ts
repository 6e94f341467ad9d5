/** One's own account. */
import type { Locator, Page } from 'playwright-core';
import { PeoplePage } from './people.ts';

export class AccountPage extends PeoplePage {
  async openPart(part: '' | 'sessions' | 'keys' | 'activity' = ''): Promise<void> {
    await this.page.goto(`/console/account${part === '' ? '' : `/${part}`}`);
    await this.page.getByRole('heading', { name: 'Your account', exact: true }).waitFor();
    await this.page.getByText('Loading…').first().waitFor({ state: 'detached' });
  }

  part(name: string): Locator {
    return this.page.getByRole('region', { name });
  }
}

/** Gives the page's browser a device that keeps passkeys, and whose owner always says yes. */
export async function withPasskeys(page: Page): Promise<void> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable', {});
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
}

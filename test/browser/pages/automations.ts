/** What automation may do, and what it does. */
import type { Page } from 'playwright-core';

export class AutomationsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/automations${query}`);
    await this.page.getByRole('heading', { name: 'Limits' }).waitFor();
    await this.page.getByText('Loading…').first().waitFor({ state: 'detached' });
  }

  rows(): Promise<string[]> {
    return this.page
      .getByRole('group', { name: 'Automations', exact: true })
      .locator('tbody tr')
      .allInnerTexts();
  }

  slots(): Promise<string> {
    return this.page.locator('.figure').innerText();
  }

  async stop(why: string): Promise<void> {
    await this.page.getByLabel('Why automation is stopped').fill(why);
    await this.page.getByRole('button', { name: 'Stop automation…' }).click();
  }
}

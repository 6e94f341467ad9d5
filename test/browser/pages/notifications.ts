/** Approval routing with their tests, and the delivery log. */
import type { Page } from 'playwright-core';

export class NotificationsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/notifications`);
    await this.page.getByRole('heading', { name: 'Channels' }).waitFor();
  }

  /** What came of it. */
  async test(channel: string): Promise<string> {
    const button = this.page.getByRole('button', { name: new RegExp(`^Test ${channel}`) });
    await button.click();
    const row = this.page.getByRole('row').filter({ has: button });
    const result = row.locator('.tested').first();
    await result.waitFor();
    return result.innerText();
  }
}

export class DeliveriesPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/deliveries${query}`);
    await this.page.getByRole('heading', { name: 'Deliveries' }).waitFor();
    await this.page.getByText('Loading…').waitFor({ state: 'detached' });
  }

  rows(): Promise<string[]> {
    return this.page.locator('tbody tr').allInnerTexts();
  }

  async choose(label: 'State' | 'Channel', value: string): Promise<void> {
    await this.page.getByRole('combobox', { name: label }).selectOption(value);
    await this.page.getByText('Loading…').waitFor({ state: 'detached' });
  }

  async openFirst(): Promise<void> {
    await this.page.locator('tbody tr a').first().click();
    await this.page.getByRole('heading', { name: 'Attempts' }).waitFor();
  }
}

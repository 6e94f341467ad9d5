/** The history of changes. */
import type { Page } from 'playwright-core';

export class HistoryPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/history${query}`);
    await this.page.locator('table.history').waitFor();
  }

  rows(): Promise<string[]> {
    return this.page.locator('table.history > tbody > tr:first-child').allInnerTexts();
  }

  async takeBack(
    revision: number,
    verb: 'Undo this change…' | 'Restore what it was after this…',
  ): Promise<void> {
    await this.page.getByRole('button', { name: String(revision), exact: true }).click();
    await this.page.getByRole('button', { name: verb }).click();
  }
}

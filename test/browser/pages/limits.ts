/** Budgets and freezes: what automation may spend, and when it may act. */
import type { Locator, Page } from 'playwright-core';

export class BudgetsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/budgets${query}`);
    await this.page.getByRole('heading', { name: 'Budgets', exact: true }).waitFor();
    await this.page.getByText('Loading…').first().waitFor({ state: 'detached' });
  }

  panel(name: string): Locator {
    return this.page.getByRole('region', { name: `Budget ${name} of the ` });
  }

  /** What the bar says to those who do not see it. */
  bar(name: string): Promise<string | null> {
    return this.panel(name).getByRole('img').getAttribute('aria-label');
  }

  async table(): Promise<string[][]> {
    const rows = this.page.getByRole('region', { name: 'Spending by day' }).locator('details tr');
    return Promise.all(
      (await rows.all()).slice(1).map((row) => row.locator('th, td').allInnerTexts()),
    );
  }

  /** Those behind the bar that was chosen. */
  behind(): Promise<string[]> {
    return this.page
      .getByRole('group', { name: 'Behind the bar' })
      .locator('tbody th')
      .allInnerTexts();
  }
}

export class FreezesPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/freezes${query}`);
    await this.page.getByRole('heading', { name: 'Freezes', exact: true }).waitFor();
    await this.page.getByText('Loading…').first().waitFor({ state: 'detached' });
  }

  panel(name: string): Locator {
    return this.page.getByRole('region', { name: `Freeze ${name} of the ` });
  }

  /** What stands in the calendar at each day that has something, such as `24: holidays 18:00–`. */
  async days(): Promise<string[]> {
    const cells = await this.page.locator('table.month td:has(li)').all();
    return Promise.all(
      cells.map(async (cell) => {
        const day = await cell.locator('time > span').first().innerText();
        const freezes = await cell.locator('li').allTextContents();
        return `${day}: ${freezes.map((text) => text.trim()).join(', ')}`;
      }),
    );
  }
}

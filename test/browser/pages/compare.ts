/** Two effective configurations side by side. */
import type { Page } from 'playwright-core';

export class ComparePage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/compare${query}`);
    await this.compared();
  }

  async compared(): Promise<void> {
    await this.page.getByText(/keys (differ|are the same)\.$/).waitFor();
  }

  count(): Promise<string> {
    return this.page.locator('.count').innerText();
  }

  /** Key or place, and the value on either side, without who wrote it. */
  async rows(): Promise<string[][]> {
    const rows = await this.page.locator('table.compared > tbody > tr').all();
    return Promise.all(
      rows.map(async (row) => {
        const cells = await row.locator('th, td').allInnerTexts();
        return cells.map((cell) =>
          cell
            .trim()
            .split('\n')[0]!
            .replace(/ differs$/, ''),
        );
      }),
    );
  }

  async with(field: 'Tenant' | 'Agent type', value: string): Promise<void> {
    const side = this.page.getByRole('group', { name: 'With' });
    if (field === 'Tenant') await side.getByLabel(field).selectOption({ label: value });
    else {
      await side.getByLabel(field).fill(value);
      await side.getByLabel(field).press('Enter');
    }
    await this.compared();
  }
}

/** The audit. */
import { eventually } from '../../support/cluster.ts';
import type { Page } from 'playwright-core';

export class AuditPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/audit${query}`);
    await this.page.getByRole('heading', { name: 'Audit' }).waitFor();
    await this.loaded();
  }

  /** Of every tenant and the platform, for its administrators. */
  async openOfAll(): Promise<void> {
    await this.page.goto('/console/platform/audit');
    await this.page.getByRole('heading', { name: 'Audit log (all tenants)' }).waitFor();
    await this.loaded();
  }

  async loaded(): Promise<void> {
    await this.page.locator('table.audit, .empty:not([role])').first().waitFor();
  }

  /** What was done, to what and by whom. */
  async rows(): Promise<string[][]> {
    const rows = await this.page.locator('table.audit > tbody > tr:first-child').all();
    return Promise.all(
      rows.map(async (row) => {
        const cells = await row.locator('th, td').allInnerTexts();
        return cells.map((cell) => cell.trim()).slice(0, 3);
      }),
    );
  }

  async filter(label: string, text: string): Promise<void> {
    const field = this.page.getByLabel(label);
    await eventually(async () => {
      // Once more where the page had not finished loading.
      await field.fill(text);
      await field.press('Enter');
      const { searchParams } = new URL(this.page.url());
      if (![...searchParams.values()].includes(text)) throw new Error('not in the address yet');
    });
  }

  async verify(): Promise<string> {
    await this.page.getByRole('button', { name: 'Verify the record' }).click();
    const says = this.page.locator('.proof [role=status] p').first();
    await says.filter({ hasText: 'record is' }).waitFor();
    return says.innerText();
  }

  /** The lines of the file that is saved. */
  export(): Promise<string[]> {
    return this.savedBy('Export filtered events');
  }

  /** Likewise, of a chain from its beginning. */
  exportRecord(): Promise<string[]> {
    return this.savedBy('Export the record');
  }

  private async savedBy(button: string): Promise<string[]> {
    const saved = this.page.waitForEvent('download');
    await this.page.getByRole('button', { name: button }).click();
    const file = await saved;
    const chunks: Buffer[] = [];
    for await (const chunk of await file.createReadStream()) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString('utf8').trim().split('\n');
  }
}

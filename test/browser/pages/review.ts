/** Review & publish: the dialog that every write passes. */
import type { Locator, Page } from 'playwright-core';

export class ReviewDialog {
  readonly dialog: Locator;
  constructor(page: Page) {
    this.dialog = page.getByRole('dialog');
  }

  /** Where, before and after, of every change. */
  async changes(): Promise<string[][]> {
    await this.dialog.locator('.changes, .empty').first().waitFor();
    await this.dialog.getByText('Trying it…').waitFor({ state: 'detached' });
    const rows = await this.dialog.locator('.changes tbody tr').all();
    return Promise.all(rows.map((row) => row.locator('th, td').allInnerTexts()));
  }

  async send(verb: string, reason = ''): Promise<void> {
    await this.dialog.getByLabel('Reason').fill(reason);
    await this.dialog.getByRole('button', { name: verb, exact: true }).click();
  }

  /** Sends it, and waits until it is taken. */
  async publish(verb: string, reason = ''): Promise<void> {
    await this.send(verb, reason);
    await this.dialog.waitFor({ state: 'detached' });
  }
}

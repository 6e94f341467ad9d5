/** Change sets: what is proposed in place of a refused write, and the page on which others decide. */
import type { Locator, Page } from 'playwright-core';

export class ChangeSetPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async shown(title: string): Promise<void> {
    await this.page.getByRole('heading', { name: title }).waitFor();
    await this.page.getByRole('heading', { name: 'What changes' }).waitFor();
  }

  state(state: string): Promise<void> {
    return this.page.locator('.heading .state-of', { hasText: state }).first().waitFor();
  }

  fact(name: string): Locator {
    return this.page.locator('.facts > div').filter({ has: this.page.getByText(name) });
  }

  /** Where a write was refused: the form in its place. */
  async refused(): Promise<Locator> {
    const dialog = this.page.getByRole('dialog');
    await dialog.getByText('This takes the approval of somebody else.').waitFor();
    return dialog;
  }

  act(verb: string): Promise<void> {
    return this.page.getByRole('button', { name: verb, exact: true }).click();
  }
}

/** Members, approver groups and service accounts: lists of who may do what. */
import type { Locator, Page } from 'playwright-core';
import { FormDialog } from './form-dialog.ts';

const headings = {
  members: 'Members',
  groups: 'Approver groups',
  'service-accounts': 'Service accounts',
  access: 'Access report',
} as const;

export class PeoplePage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, screen: keyof typeof headings, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/${screen}${query}`);
    await this.page.getByRole('heading', { name: headings[screen], exact: true }).waitFor();
    await this.page.getByText('Loading…').waitFor({ state: 'detached' });
  }

  /** The row that begins with a text. */
  row(text: string): Locator {
    return this.page.getByRole('row').filter({ hasText: text });
  }

  /** Opens the form behind a button. */
  async begin(button: string, title: string | RegExp): Promise<FormDialog> {
    await this.page.getByRole('button', { name: button, exact: true }).click();
    const form = new FormDialog(this.page, title);
    await form.dialog.waitFor();
    return form;
  }

  /** The secret that is shown this once, which is then put away. */
  async takeSecret(): Promise<string> {
    const dialog = this.page.getByRole('dialog', { name: /^API key/ });
    const secret = await dialog.getByLabel('Secret').innerText();
    await dialog.getByRole('button', { name: 'I have it' }).click();
    await dialog.waitFor({ state: 'detached' });
    return secret.trim();
  }
}

/** Approvals: the inbox, and one approval with what can be done about it. */
import type { Page } from 'playwright-core';

export class ApprovalsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async openInbox(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/approvals${query}`);
    await this.page.getByRole('heading', { name: 'Approvals' }).waitFor();
    await this.page.getByText('Loading…').waitFor({ state: 'detached' });
  }

  async openOne(title: string): Promise<void> {
    await this.page.getByRole('link', { name: title }).click();
    await this.page.getByRole('heading', { name: 'Timeline' }).waitFor();
  }

  async decide(verb: 'Approve' | 'Deny', comment: string): Promise<void> {
    await this.page.getByLabel('Comment').fill(comment);
    await this.page.getByRole('button', { name: verb, exact: true }).click();
    await this.page.getByLabel('Comment').waitFor({ state: 'detached' });
  }

  timeline(): Promise<string> {
    return this.page.locator('.timeline').innerText();
  }
}

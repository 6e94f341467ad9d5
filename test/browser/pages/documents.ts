/** Documents: their lists, and the editor of one. */
import type { Locator, Page } from 'playwright-core';

export class DocumentPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, document: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/documents/${document}${query}`);
    await this.page.locator('.editor').waitFor();
  }

  async openList(tenantId: string): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/documents`);
    await this.page.getByRole('heading', { name: 'Projects' }).waitFor();
    await this.page.getByRole('group', { name: 'Agents' }).waitFor();
  }

  /** Parts in which nothing is set are folded. */
  async unfold(...parts: readonly string[]): Promise<void> {
    for (const part of parts)
      await this.page.locator('details.part > summary').getByText(part, { exact: true }).click();
  }

  field(place: string): Locator {
    return this.page.locator(`[name="${place}"]`);
  }

  review(): Promise<void> {
    return this.page.getByRole('button', { name: 'Review & publish…' }).click();
  }

  state(): Promise<string> {
    return this.page.locator('footer.actions [role=status]').innerText();
  }

  notice(): Locator {
    return this.page.locator('.editor > .notice');
  }
}

/** What administrators of the platform see: its tenants, its documents, the plan, and the nodes. */
import type { Locator, Page } from 'playwright-core';

export class TenantsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(query = ''): Promise<void> {
    await this.page.goto(`/console/platform/tenants${query}`);
    await this.page.getByRole('heading', { name: 'Tenants' }).waitFor();
    await this.page.getByText('Loading…').waitFor({ state: 'detached' });
  }

  async names(): Promise<string[]> {
    return this.page.locator('tbody tr th').allInnerTexts();
  }

  row(name: string): Locator {
    return this.page.locator('tbody tr').filter({ hasText: name });
  }

  async create(name: string, email: string): Promise<void> {
    await this.page.getByRole('button', { name: 'New tenant…' }).click();
    const dialog = this.page.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: true }).fill(name);
    await dialog.getByLabel('E-mail of its first administrator').fill(email);
    await dialog.getByRole('button', { name: 'Create the tenant' }).click();
    await dialog.waitFor({ state: 'detached' });
  }

  async turn(verb: 'Disable' | 'Enable', name: string): Promise<void> {
    await this.row(name)
      .getByRole('button', { name: `${verb.toLowerCase()} ${name}` })
      .click();
    await this.page.getByRole('button', { name: `${verb} the tenant` }).click();
    await this.page.getByRole('dialog').waitFor({ state: 'detached' });
  }
}

export class AccountsPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(): Promise<void> {
    await this.page.goto('/console/platform/accounts');
    await this.page.getByRole('heading', { name: 'Accounts' }).waitFor();
  }

  async find(email: string): Promise<void> {
    await this.page.getByLabel('Address or name').fill(email);
    await this.page.getByRole('button', { name: 'Find' }).click();
    await this.page.waitForURL(`**/accounts?q=${encodeURIComponent(email)}`);
  }

  row(email: string): Locator {
    return this.page.locator('tbody tr').filter({ hasText: email });
  }

  async turn(verb: 'Disable' | 'Enable', email: string): Promise<void> {
    await this.row(email)
      .getByRole('button', { name: `${verb.toLowerCase()} ${email}` })
      .click();
    await this.page.getByRole('button', { name: `${verb} the account` }).click();
    await this.page.getByRole('dialog').waitFor({ state: 'detached' });
  }
}

export class PlatformDocumentPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(document: string): Promise<void> {
    await this.page.goto(`/console/platform/${document}`);
    await this.page.locator('.editor').waitFor();
  }

  async openList(name: 'global' | 'service-types'): Promise<void> {
    await this.page.goto(`/console/platform/${name}`);
    await this.page.locator('.kind tbody, .kind .empty').first().waitFor();
  }

  field(place: string): Locator {
    return this.page.locator(`[name="${place}"]`);
  }

  review(): Promise<void> {
    return this.page.getByRole('button', { name: 'Review & publish…' }).click();
  }
}

export class PlanPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async looked(): Promise<void> {
    await this.page.getByRole('heading', { name: 'Blast radius' }).waitFor();
  }

  /** Such as `changed: 2`. */
  async counts(): Promise<Record<string, number>> {
    const parts = await this.page.locator('.counts > div').all();
    const entries = parts.map(async (part) => {
      const [name, count] = [part.locator('dt'), part.locator('strong')];
      return [await name.innerText(), Number(await count.innerText())] as const;
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  async writeItem(action: string, path: string, body: unknown): Promise<void> {
    await this.page.getByText('Write an item', { exact: true }).click();
    await this.page.locator('[name=action]').selectOption(action);
    await this.page.locator('[name=path]').fill(path);
    await this.page.locator('textarea[name=body]').fill(JSON.stringify(body));
    await this.page.getByRole('button', { name: 'Add to the plan' }).click();
  }

  async apply(): Promise<void> {
    await this.page.getByRole('button', { name: 'Apply exactly this…' }).click();
    await this.page.getByRole('button', { name: 'Apply the plan' }).click();
  }
}

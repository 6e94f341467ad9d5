/** The page that asks who somebody is. */
import type { Page } from 'playwright-core';

export class SignInPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(path = '/console'): Promise<void> {
    await this.page.goto(path);
    await this.submit.waitFor();
  }

  get submit() {
    return this.page.getByRole('button', { name: 'Sign in', exact: true });
  }

  async signIn(email: string, password: string): Promise<void> {
    await this.page.getByLabel('E-mail').fill(email);
    await this.page.locator('input[name=password]').fill(password);
    await this.submit.click();
  }

  problem(): Promise<string> {
    return this.page.getByRole('alert').innerText();
  }
}

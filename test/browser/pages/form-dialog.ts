/** A form over the page, such as an invitation. */
import type { Locator, Page } from 'playwright-core';

export class FormDialog {
  readonly dialog: Locator;
  constructor(page: Page, title: string | RegExp) {
    this.dialog = page.getByRole('dialog', { name: title });
  }

  field(label: string): Locator {
    return this.dialog.getByLabel(label);
  }

  /** Ticks or clears one of several. */
  async choose(name: string, isOn = true): Promise<void> {
    await this.dialog.getByRole('checkbox', { name }).setChecked(isOn);
  }

  async send(verb: string): Promise<void> {
    await this.dialog.getByRole('button', { name: verb, exact: true }).click();
  }

  /** Sends it, and waits until it is done. */
  async done(verb: string): Promise<void> {
    await this.send(verb);
    await this.dialog.waitFor({ state: 'detached' });
  }

  problem(): Promise<string> {
    return this.dialog.getByRole('alert').innerText();
  }
}

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

  /** The one of several whose label begins with this name. */
  choice(name: string): Locator {
    const begins = new RegExp(`^${RegExp.escape(name)}(?!\\w)`);
    return this.dialog.getByRole('checkbox', { name: begins });
  }

  /** Ticks or clears it. */
  async choose(name: string, isOn = true): Promise<void> {
    await this.choice(name).setChecked(isOn);
  }

  async send(verb: string): Promise<void> {
    await this.dialog.getByRole('button', { name: verb, exact: true }).click();
  }

  /** Sends it, and waits until it is done. */
  async done(verb: string): Promise<void> {
    await this.send(verb);
    await this.dialog.waitFor({ state: 'detached' }).catch(async (error: unknown) => {
      throw new Error(`it stays: ${await this.dialog.innerText()}`, { cause: error });
    });
  }

  problem(): Promise<string> {
    return this.dialog.getByRole('alert').innerText();
  }
}

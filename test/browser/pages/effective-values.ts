/** Effective values: a question, the keys that answer it, and the ladder of each. */
import type { Locator, Page } from 'playwright-core';

export interface ShownKey {
  readonly key: string;
  readonly value: string;
  readonly decidedBy: string;
}
export interface ShownRung {
  readonly layer: string;
  readonly value: string;
  readonly state: string;
  readonly revision: string;
}

/** Without a layer where a bound decides. */
export interface DecidingRung {
  readonly key: string;
  readonly layer?: string;
  readonly value?: string;
  readonly by?: string;
  readonly revision?: string;
}

export class EffectiveValuesPage {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(tenantId: string, query = ''): Promise<void> {
    await this.page.goto(`/console/tenants/${tenantId}/effective${query}`);
    await this.loaded();
  }

  async loaded(): Promise<void> {
    await this.page.getByRole('heading', { name: 'Effective values' }).waitFor();
    await this.page.getByText(/\d+ keys$/).waitFor();
  }

  async keys(): Promise<ShownKey[]> {
    return this.page.evaluate<
      ShownKey[]
    >(`[...document.querySelectorAll('table.keys > tbody:not([hidden])')].map((body) => {
      const [row] = body.rows;
      const text = (cell) => cell.innerText.trim();
      return { key: text(row.cells[0]), value: text(row.cells[1]), decidedBy: text(row.cells[2]) };
    })`);
  }

  key(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true });
  }

  ladder(name: string): Locator {
    return this.page.getByRole('group', { name: `Layers of ${name}`, exact: true });
  }

  async openLadder(name: string): Promise<void> {
    await this.key(name).click();
    await this.ladder(name).waitFor();
  }

  async rungs(name: string): Promise<ShownRung[]> {
    const rows = await this.ladder(name).locator('tbody tr').all();
    return Promise.all(
      rows.map(async (row) => {
        const cells = await row.locator('th, td').allInnerTexts();
        const [layer, value, state, , , revision] = cells.map((cell) => cell.trim());
        return { layer: layer!, value: value!, state: state!, revision: revision! };
      }),
    );
  }

  /**
   * Of every open ladder, the rung that decides: what it says, who wrote that, and at which
   * revision.
   */
  decided(): Promise<DecidingRung[]> {
    return this.page.evaluate<
      DecidingRung[]
    >(`[...document.querySelectorAll('table.keys > tbody.open:not([hidden])')].map((body) => {
      const text = (cell) => cell?.innerText.trim() ?? '';
      const { cells = [] } = body.querySelector('.rung.decides') ?? {};
      const [layer, value, , by, , revision] = [...cells].map(text);
      // Below the name stands why.
      const [author] = by?.split('\\n') ?? [];
      return { key: text(body.rows[0].cells[0]), layer, value, by: author, revision };
    })`);
  }

  filter(text: string): Promise<void> {
    return this.page.getByRole('searchbox', { name: 'Filter' }).fill(text);
  }

  async ask(
    label: 'Agent type' | 'Service' | 'Service type' | 'As of (your time)' | 'or revision',
    name: string,
  ): Promise<void> {
    const field = this.page.getByLabel(label, { exact: true });
    await field.fill(name);
    await field.press('Enter');
  }

  clear(name: string, layer: string): Promise<void> {
    return this.#act(name, layer, 'Clear…');
  }

  /** Up to its review. */
  async edit(name: string, layer: string, value: string): Promise<void> {
    await this.#act(name, layer, 'Edit…');
    const dialog = this.page.getByRole('dialog', { name: `Change ${name}` });
    await dialog.getByRole('spinbutton').fill(value);
    await dialog.getByRole('button', { name: 'Review' }).click();
  }

  #act(name: string, layer: string, verb: string): Promise<void> {
    const row = this.ladder(name).getByRole('row').filter({ hasText: layer });
    return row.getByRole('button', { name: verb }).click();
  }
}

/** Light or dark: as the system has it, unless somebody chose. */
import { signal } from '@preact/signals';

const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const kept = 'strata-theme';

const chosen = localStorage.getItem(kept);
export const theme = signal<Theme>(themes.find((each) => each === chosen) ?? 'system');

export function applyTheme(): void {
  const { documentElement: page } = document;
  if (theme.value === 'system') delete page.dataset.theme;
  else page.dataset.theme = theme.value;
}

export function nextTheme(): void {
  const index = themes.indexOf(theme.value);
  theme.value = themes[(index + 1) % themes.length]!;
  localStorage.setItem(kept, theme.value);
  applyTheme();
}

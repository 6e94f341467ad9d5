/** Light or dark: as the system has it, unless somebody chose. */
import { signal } from '@preact/signals';

const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];
const kept = 'strata-theme';

const isTheme = (text: string | null): text is Theme => themes.some((each) => each === text);

function chosen(): Theme {
  const text = localStorage.getItem(kept);
  return isTheme(text) ? text : 'system';
}

export const theme = signal<Theme>(chosen());

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

import { describeChanges, loadSettings, readEnvironment, type Settings } from './settings.ts';

/** The one settings object of a process, replaced as a whole by a reload. */
export interface LiveSettings {
  readonly current: Settings;
  /** What a reload would change. Throws SettingsInvalid, as `reload` does. */
  preview(): { changed: string[]; requires_restart: string[] };
  /** Re-reads the environment; keeps the old settings where the new ones are not valid. */
  reload(): { changed: string[]; requires_restart: string[] };
}

/** `fixed` is what this process decided itself (a generated key, a node id) and a reload must not take away. */
export function liveSettings(
  first: Settings,
  fixed: Readonly<Record<string, string>>,
  pieces: readonly string[],
): LiveSettings {
  let current = first;
  const next = (): Settings =>
    loadSettings({ ...readEnvironment(), ...fixed }, { pieces: [...pieces] });
  return {
    get current() {
      return current;
    },
    preview: () => describeChanges(current, next()),
    reload() {
      const loaded = next();
      const changes = describeChanges(current, loaded);
      current = loaded;
      return changes;
    },
  };
}

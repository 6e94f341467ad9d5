/** The settings of a running process, which `/config/reload` can replace while it runs. */
import {
  describeChanges,
  frozen,
  isEmbedded,
  loadSettings,
  readEnvironment,
  type HostedRole,
  type SettingChanges,
  type Settings,
} from './settings.ts';
import { ensureSecretKey } from '../security/secret-key-file.ts';

export interface LiveSettings {
  /** Replaced as a whole by a reload, so that two looks at one object never differ. */
  readonly current: Settings;
  /**
   * What a reload would change, and what differs until a restart. Throws SettingsInvalid, as
   * `reload` does.
   */
  preview(): SettingChanges;
  /**
   * Re-reads the environment; keeps the old settings where the new ones are not valid, and those
   * that only a restart applies.
   */
  reload(): SettingChanges;
  /**
   * Calls the listener with the new settings after each reload, for what does not look at them at
   * every use.
   */
  onReload(listener: (settings: Settings) => void): void;
}

/**
 * `pinned` are variables that this process decided itself, such as its node's name: they win over
 * the environment, so that a reload does not take them away.
 */
export function liveSettings(
  first: Settings,
  pinned: Readonly<Record<string, string>>,
  roles: readonly HostedRole[],
): LiveSettings {
  let current = first;
  const listeners: ((settings: Settings) => void)[] = [];

  /** `next`: what a reload puts in force, which is what was found but for what a restart applies. */
  function loadAgain(): { readonly next: Settings; readonly changes: SettingChanges } {
    const environment = { ...readEnvironment(), ...pinned };
    const found = loadSettings(environment, { roles });
    const next = loadSettings(environment, { roles, running: current });
    const { changed } = describeChanges(current, next);
    const { requires_restart } = describeChanges(current, found);
    return { next, changes: { changed, requires_restart } };
  }

  return {
    get current() {
      return current;
    },
    preview: () => loadAgain().changes,
    reload() {
      const { next, changes } = loadAgain();
      current = next;
      for (const listener of listeners) listener(next);
      return changes;
    },
    onReload(listener) {
      listeners.push(listener);
    },
  };
}

/**
 * The settings that a node starts with; `isPart`: there are other roles than these. Throws
 * SettingsInvalid, and then leaves no key behind.
 */
export function firstSettings(
  roles: readonly HostedRole[],
  { isPart }: { readonly isPart: boolean },
) {
  const loaded = loadSettings(readEnvironment(), { roles, isPart });
  const pinned = { NODE_ID: loaded.node_id };
  if (!isEmbedded(loaded) || loaded.secret_key !== null)
    return { settings: liveSettings(loaded, pinned, roles), madeSecretKey: false };
  const { key, made } = ensureSecretKey(loaded.data_dir);
  const withKey = frozen({ ...loaded, secret_key: key });
  const settings = liveSettings(withKey, { ...pinned, SECRET_KEY: key }, roles);
  return { settings, madeSecretKey: made };
}

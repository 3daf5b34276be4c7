/**
 * The settings that the server is told: those that somebody has set, and no defaults, which would
 * hide the user's `settings.toml` and the workspace's `tabahead.toml`.
 */

export const SECTION = 'tabahead';

/** What the editor has of one setting, by where it was set. */
export interface Layers {
  readonly user: unknown;
  readonly workspace: unknown;
}

/** Settings of the extension itself. */
const OF_THE_CLIENT = /^(server|trace)\./;

/** Of these the values of all layers count, so that no workspace takes any away. */
const ADDING = new Set(['exclude', 'languages_off']);

/** The names below SECTION that are the server's, of what the extension contributes. */
export function serverKeys(contributed: readonly string[]): string[] {
  const prefix = `${SECTION}.`;
  return contributed
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .filter((name) => !OF_THE_CLIENT.test(name));
}

export function explicitSettings(
  keys: readonly string[],
  layersOf: (key: string) => Layers,
): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const key of keys) {
    const value = merged(key, layersOf(key));
    if (value !== undefined) {
      settings[key] = value;
    }
  }
  return settings;
}

function merged(key: string, { user, workspace }: Layers): unknown {
  if (ADDING.has(key) && Array.isArray(user) && Array.isArray(workspace)) {
    return [...new Set((user as unknown[]).concat(workspace))];
  }
  return workspace ?? user;
}

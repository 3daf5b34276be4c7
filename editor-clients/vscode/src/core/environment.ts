/** The environment that programs of ours run in: nothing of a workspace is found there. */
import { foldersOutside, pathOf, type Platform } from './paths';

type Environment = Readonly<Record<string, string | undefined>>;

/** What says where programs, and modules of Python, are looked for. */
const SEARCHED = new Set(['PATH', 'PYTHONPATH']);

/** `env` whose search paths have those entries only that are absolute and outside all `folders`. */
export function safeEnvironment(
  env: Environment,
  folders: readonly string[],
  platform: Platform,
): Record<string, string | undefined> {
  const safe: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !SEARCHED.has(platform === 'win32' ? name.toUpperCase() : name)) {
      safe[name] = value;
      continue;
    }
    // An empty one would be read as the current folder.
    const kept = foldersOutside(value, folders, platform);
    if (kept.length > 0) {
      safe[name] = kept.join(pathOf(platform).delimiter);
    }
  }
  return safe;
}

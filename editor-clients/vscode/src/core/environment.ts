/** The environment that programs of ours run in: Python finds nothing of a workspace there. */
import { isInside, pathOf, type Platform } from './paths';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * `env` with those entries of PYTHONPATH only that are absolute and outside all `folders`: an empty
 * or relative one is read as the folder that the program runs in.
 */
export function safeEnvironment(
  env: Environment,
  folders: readonly string[],
  platform: Platform,
): Record<string, string | undefined> {
  const { PYTHONPATH: searched, ...rest } = env;
  if (searched === undefined) {
    return rest;
  }
  const path = pathOf(platform);
  const kept = searched
    .split(path.delimiter)
    .filter((entry) => path.isAbsolute(entry))
    .filter((entry) => !folders.some((folder) => isInside(entry, folder, platform)));
  return kept.length > 0 ? { ...rest, PYTHONPATH: kept.join(path.delimiter) } : rest;
}

/** Paths by the rules of a platform, so that those of all can be tested on one. */
import { posix, win32, type PlatformPath } from 'node:path';

export type Platform = 'linux' | 'darwin' | 'win32';

export function pathOf(platform: Platform): PlatformPath {
  return platform === 'win32' ? win32 : posix;
}

/** Whether `path` is `folder` or lies below it; both are absolute. */
export function isInside(path: string, folder: string, platform: Platform): boolean {
  const rules = pathOf(platform);
  const between = rules.relative(folder, path);
  return (
    between === '' ||
    (between !== '..' && !between.startsWith(`..${rules.sep}`) && !rules.isAbsolute(between))
  );
}

/**
 * Folders of a search path such as PATH, less those that something in `folders` could fill. An empty
 * or relative one is read as the folder that a program runs in.
 */
export function foldersOutside(
  searched: string,
  folders: readonly string[],
  platform: Platform,
): string[] {
  const path = pathOf(platform);
  return searched
    .split(path.delimiter)
    .filter((entry) => path.isAbsolute(entry))
    .filter((entry) => !folders.some((folder) => isInside(entry, folder, platform)));
}

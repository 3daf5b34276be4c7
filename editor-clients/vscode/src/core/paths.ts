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

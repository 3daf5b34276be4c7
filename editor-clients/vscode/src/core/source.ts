/** What the server is installed from: the wheel that came with the extension, or what is set. */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { InstallError } from './install';

export interface Source {
  /** For pip. */
  readonly requirement: string;
  /** Another one where another server would be installed. */
  readonly mark: string;
}

const DEFAULT = 'tabahead[cpu,syntax]';
/** The name alone, with or without extras: no index is asked for it, where anybody may take it. */
const OURS = /^tabahead\s*(\[[^\]]*\])?$/i;

/** `shipped` is the folder of the wheel. Raises InstallError. */
export async function sourceOf(setting: string, shipped: string): Promise<Source> {
  const requirement = setting.trim() || DEFAULT;
  if (!OURS.test(requirement)) {
    return { requirement, mark: requirement };
  }
  // None where the extension runs from its sources.
  const names = await readdir(shipped).catch(() => []);
  const name = names.find((one) => one.endsWith('.whl'));
  if (name === undefined) {
    throw new InstallError(
      `The extension has come without the server (there is no wheel in ${shipped});` +
        ' name another requirement for pip in the setting tabahead.server.package.',
    );
  }
  const wheel = join(shipped, name);
  const hash = createHash('sha256')
    .update(await readFile(wheel))
    .digest('hex');
  // pip takes a bare semicolon for the begin of a condition.
  const url = pathToFileURL(wheel).href.replaceAll(';', '%3B');
  return {
    requirement: `${requirement} @ ${url}`,
    mark: `${requirement} ${name} sha256:${hash}`,
  };
}

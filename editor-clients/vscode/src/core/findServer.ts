/**
 * Where the server is: what the settings name, else `tabahead` on the PATH, else the environment
 * that the extension has made. Nothing inside a workspace folder is ever found.
 */
import { foldersOutside, pathOf, type Platform } from './paths';

export interface ServerSettings {
  readonly command: string | readonly string[];
  readonly python: string;
}

/** A program and the arguments that come before all others. */
export interface Program {
  readonly file: string;
  readonly args: readonly string[];
}

export interface Found {
  /** Starts the server. */
  readonly serve: Program;
  /** Runs tabahead's other commands: `stats`, `models`. */
  readonly tool: Program;
  /** Where it was found, for the log. */
  readonly origin: string;
}

/** The settings name something that is not there: a sentence that says what to do. */
export interface Wrong {
  readonly problem: string;
}

/** The origin of what the extension has installed. */
export const OWN_ENVIRONMENT = "the extension's own environment";

/** What must be asked of the machine. */
export interface Machine {
  readonly platform: Platform;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Of the workspace. */
  readonly folders: readonly string[];
  /** Python of the extension's own environment, once that is complete. */
  readonly ownPython: string | undefined;
  isProgram(path: string): boolean;
}

/** Undefined: there is none, and the settings name none. */
export function findServer(settings: ServerSettings, machine: Machine): Found | Wrong | undefined {
  const [file = '', ...args] = [settings.command].flat();
  if (file.trim() !== '') {
    return ofCommand(file.trim(), args, machine);
  }
  const python = settings.python.trim();
  if (python !== '') {
    const found = locate(python, machine);
    return found === undefined
      ? wrong('tabahead.server.python', python)
      : ofPython(found, 'tabahead.server.python');
  }
  const onPath = locate('tabahead', machine);
  if (onPath !== undefined) {
    const tool = { file: onPath, args: [] };
    return { serve: { ...tool, args: ['--stdio'] }, tool, origin: 'PATH' };
  }
  return machine.ownPython === undefined ? undefined : ofPython(machine.ownPython, OWN_ENVIRONMENT);
}

function ofCommand(name: string, args: readonly string[], machine: Machine): Found | Wrong {
  const file = locate(name, machine);
  if (file === undefined) {
    return wrong('tabahead.server.command', name);
  }
  // What the server alone is told begins with `serve` or the first long option.
  const end = args.findIndex((arg) => arg === 'serve' || arg.startsWith('--'));
  const tool = { file, args: end < 0 ? args : args.slice(0, end) };
  return { serve: { file, args }, tool, origin: 'tabahead.server.command' };
}

/** `-P` keeps the current folder off the import path. */
function ofPython(file: string, origin: string): Found {
  const args = ['-P', '-m', 'lsp_server'];
  return { serve: { file, args: [...args, '--stdio'] }, tool: { file, args }, origin };
}

/** A path as it is, a bare name on the PATH. */
export function locate(name: string, machine: Machine): string | undefined {
  const path = pathOf(machine.platform);
  const full = /^~(?=[/\\]|$)/.test(name) ? path.join(machine.home, name.slice(1)) : name;
  const folders = path.isAbsolute(full)
    ? ['']
    : path.basename(full) === full
      ? searchPath(machine)
      : [];
  const endings = machine.platform === 'win32' && path.extname(full) === '' ? ['.exe'] : [''];
  return folders
    .flatMap((folder) => endings.map((ending) => path.join(folder, full + ending)))
    .find((candidate) => machine.isProgram(candidate));
}

/** Folders of the PATH, less those that a workspace could fill. */
function searchPath(machine: Machine): string[] {
  const name = Object.keys(machine.env).find((key) =>
    machine.platform === 'win32' ? key.toUpperCase() === 'PATH' : key === 'PATH',
  );
  const value = name === undefined ? undefined : machine.env[name];
  return foldersOutside(value ?? '', machine.folders, machine.platform);
}

function wrong(setting: string, name: string): Wrong {
  return {
    problem:
      `The setting ${setting} names ${name}, which is no program on this machine;` +
      ' give its full path, or clear the setting.',
  };
}

/** What the core must know of this machine and workspace. */
import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { safeEnvironment } from './core/environment';
import type { Machine, ServerSettings } from './core/findServer';
import { installedPython, type Place } from './core/install';
import type { Platform } from './core/paths';
import { sourceOf, type Source } from './core/source';

/** Windows and macOS have rules of their own, all others those of Linux. */
export const PLATFORM: Platform =
  process.platform === 'win32' || process.platform === 'darwin' ? process.platform : 'linux';

/** The extension's own environment, below its storage. */
export function ownEnvironment(storage: string): Place {
  return { folder: path.join(storage, 'server'), platform: PLATFORM };
}

export function thisMachine(storage: string): Machine {
  return {
    platform: PLATFORM,
    home: homedir(),
    env: process.env,
    folders: workspaceFolders(),
    ownPython: installedPython(ownEnvironment(storage)),
    isProgram,
  };
}

/** Where and with what our programs run: never in the workspace, never with it to import from. */
export function surroundings(storage: string): {
  cwd: string;
  env: Record<string, string | undefined>;
} {
  return { cwd: storage, env: safeEnvironment(process.env, workspaceFolders(), PLATFORM) };
}

/** Written by hand they may be anything. */
export function serverSettings(): ServerSettings {
  const settings = vscode.workspace.getConfiguration('tabahead.server');
  return {
    command: [settings.get<unknown>('command', '')].flat().map(String),
    python: String(settings.get<unknown>('python', '')),
  };
}

/** Raises InstallError. `extension` is its folder. */
export function serverSource(extension: string): Promise<Source> {
  const setting = vscode.workspace.getConfiguration('tabahead.server').get<unknown>('package', '');
  return sourceOf(String(setting), path.join(extension, 'server'));
}

function workspaceFolders(): string[] {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return folders.filter(({ uri }) => uri.scheme === 'file').map(({ uri }) => uri.fsPath);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    // Absent or not allowed: no program for us either way.
    return false;
  }
}

// Where things lie, and which tools a test run needs; nothing else knows a path.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

export const ROOT = path.resolve(import.meta.dirname, '../../..');
export const SCREENSHOTS = path.join(ROOT, 'out/clients/screenshots');

const PLACE = path.join(ROOT, 'out/clients/vscode');

export const CODE_SERVER = path.join(PLACE, 'code-server/out/node/entry.js');
export const EXTENSIONS = path.join(PLACE, 'extensions');

/** The Python that has tabahead; `make test-vscode` names that of its environment. */
export const PYTHON = process.env.TABAHEAD_PYTHON ?? path.join(ROOT, '.venv/bin/python');

/** An empty folder for one code-server: its settings, workspace, counters and logs. */
export function emptyFolder(name) {
  const folder = path.join(PLACE, 'runs', name);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

/** Where the models lie that `make test-vscode` has fetched, and what was measured of them. */
export function cacheFolder() {
  const args = ['-P', '-m', 'lsp_server', 'models', 'path', 'smollm2-135m'];
  const model = execFileSync(PYTHON, args, { encoding: 'utf8' }).trim();
  return path.resolve(model, '../../..');
}

/** The one that CHROMIUM names, on the PATH, or unpacked by `set_up.sh`. */
export function chromium() {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter), PLACE];
  const found = folders.map((folder) => path.join(folder, 'chromium')).find(fs.existsSync);
  return process.env.CHROMIUM ?? found;
}

/** playwright-core lies below out/, where an import by name does not look. */
export function playwright() {
  return createRequire(path.join(PLACE, 'driver/'))('playwright-core');
}

/**
 * The reason to skip, or false. A run that must be whole (TABAHEAD_REQUIRE_ALL=1) fails instead.
 */
export function missingTool() {
  const tools = { Chromium: chromium(), 'code-server': CODE_SERVER, 'the extension': EXTENSIONS };
  tools['Python with tabahead'] = PYTHON;
  const absent = Object.keys(tools).filter((name) => !tools[name] || !fs.existsSync(tools[name]));
  if (absent.length === 0) return false;
  const reason = `${absent.join(', ')} absent: run \`make test-vscode\``;
  if (process.env.TABAHEAD_REQUIRE_ALL === '1') throw new Error(reason);
  return reason;
}

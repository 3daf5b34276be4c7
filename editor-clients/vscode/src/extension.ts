/** Where the editor starts and ends the extension. */
import { mkdir } from 'node:fs/promises';
import type { ExtensionContext } from 'vscode';
import { Tabahead } from './tabahead';

let tabahead: Tabahead | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  await mkdir(context.globalStorageUri.fsPath, { recursive: true });
  tabahead = new Tabahead(context);
  await tabahead.start();
}

export async function deactivate(): Promise<void> {
  await tabahead?.supervisor.stop();
}

/** Choosing the model: one of the catalogue, or a folder. */
import * as vscode from 'vscode';
import type { Program } from './core/findServer';
import { modelRows } from './core/models';
import { runTool } from './tool';

const FOLDER = { label: '$(folder-opened) A model folder...', name: undefined };

/** Raises Error with what the tool says. The server hears of the choice as of any setting. */
export async function chooseModel(tool: Program, storage: string): Promise<void> {
  const listed = await runTool(tool, ['models', 'list', '--json'], storage);
  const settings = vscode.workspace.getConfiguration('tabahead');
  const rows = [...modelRows(listed, settings.get('model')), FOLDER];
  const title = 'tabahead: the model that completes';
  const row = await vscode.window.showQuickPick(rows, { title, matchOnDetail: true });
  const model = row === FOLDER ? await chooseFolder() : row?.name;
  if (model !== undefined) {
    await settings.update('model', model, vscode.ConfigurationTarget.Global);
  }
}

async function chooseFolder(): Promise<string | undefined> {
  const [folder] =
    (await vscode.window.showOpenDialog({
      title: 'A folder made by `tabahead export`',
      canSelectFiles: false,
      canSelectFolders: true,
    })) ?? [];
  return folder?.fsPath;
}

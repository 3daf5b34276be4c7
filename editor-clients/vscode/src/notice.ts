/** Tells once that another extension shows ghost text too. */
import * as vscode from 'vscode';
import { noticeOf, otherProviders } from './core/otherProviders';

const TOLD = 'otherProviders.told';
const IS_SILENT = 'otherProviders.isSilent';

export async function noticeOtherProviders(memory: vscode.Memento): Promise<void> {
  const active = otherProviders(vscode.extensions.all.map(({ id }) => id));
  const told = memory.get<string[]>(TOLD, []);
  const notice = noticeOf(active, told);
  if (notice === undefined || memory.get<boolean>(IS_SILENT, false)) {
    return;
  }
  await memory.update(TOLD, [...new Set([...told, ...active])]);
  const actions = ['Show Extensions', "Don't Show Again"] as const;
  const action = await vscode.window.showInformationMessage(`tabahead: ${notice}`, ...actions);
  if (action === 'Show Extensions') {
    await vscode.commands.executeCommand('workbench.extensions.search', '@enabled');
  } else if (action === "Don't Show Again") {
    await memory.update(IS_SILENT, true);
  }
}

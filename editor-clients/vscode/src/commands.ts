/** The commands, each a line or two; what they do is done elsewhere. */
import * as vscode from 'vscode';
import { SCHEMES } from './client';
import { reasonHere, reasonOf } from './core/explanation';
import type { FilesOff } from './core/filesOff';
import type { Program } from './core/findServer';
import { menuOf } from './core/menu';
import type { Pause } from './core/pause';
import { chooseModel } from './models';
import type { Statistics } from './statistics';
import type { StatusBar } from './statusBar';
import type { ServerSupervisor } from './supervisor';

/** The editor's own commands under names that are found among ours. */
const OF_THE_EDITOR = {
  acceptWord: 'acceptNextWord',
  acceptLine: 'acceptNextLine',
  acceptAll: 'commit',
  next: 'showNext',
  previous: 'showPrevious',
};

export interface Parts {
  readonly storage: string;
  readonly log: vscode.LogOutputChannel;
  readonly supervisor: ServerSupervisor;
  readonly statusBar: StatusBar;
  readonly statistics: Statistics;
  readonly pause: Pause;
  readonly filesOff: FilesOff;
  install(): Promise<void>;
}

export function registerCommands(parts: Parts): vscode.Disposable[] {
  const own: Record<string, () => unknown> = {
    trigger: () => trigger(parts),
    pauseTenMinutes: () => {
      parts.pause.begin();
    },
    // Not the server's own command, which is there only while a server is.
    endPause: () => {
      parts.pause.end();
    },
    toggleFile: () => toggleFile(parts),
    showMenu: () => showMenu(parts.statusBar),
    chooseModel: () => withTool(parts, (tool) => chooseModel(tool, parts.storage)),
    showStatistics: () => withTool(parts, (tool) => parts.statistics.show(tool)),
    openLog: () => {
      parts.log.show();
    },
    explain: () => explain(parts),
    restartServer: () => parts.supervisor.restart(),
    installServer: () => parts.install(),
  };
  const { registerCommand, executeCommand } = vscode.commands;
  return [
    ...Object.entries(own).map(([name, act]) => registerCommand(`tabahead.${name}`, act)),
    ...Object.entries(OF_THE_EDITOR).map(([name, theirs]) =>
      registerCommand(`tabahead.${name}`, () =>
        executeCommand(`editor.action.inlineSuggest.${theirs}`),
      ),
    ),
  ];
}

/** A cell goes by its notebook. */
export function keyOf(document: vscode.TextDocument): string {
  const { uri } = document;
  const notebook = vscode.workspace.notebookDocuments.find((one) =>
    one.getCells().some((cell) => cell.document === document),
  );
  return (notebook?.uri ?? uri).toString();
}

/** Asked for, silence needs a reason; the server's own are a matter of "Why". */
async function trigger(parts: Parts): Promise<void> {
  await vscode.commands.executeCommand('editor.action.inlineSuggest.trigger');
  if (parts.supervisor.client === undefined) {
    await explain(parts);
  }
}

async function toggleFile({ filesOff, statusBar }: Parts): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document === undefined) {
    void vscode.window.showInformationMessage('tabahead: open a file first.');
    return;
  }
  if (filesOff.toggle(keyOf(document))) {
    await vscode.commands.executeCommand('editor.action.inlineSuggest.hide');
  }
  statusBar.update();
}

async function showMenu(statusBar: StatusBar): Promise<void> {
  const { view } = statusBar;
  const options = { title: 'tabahead', placeHolder: view.message };
  const item = await vscode.window.showQuickPick(menuOf(view), options);
  if (item !== undefined) {
    await vscode.commands.executeCommand(item.command);
  }
}

async function explain({ supervisor, statusBar, log }: Parts): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const settings = vscode.workspace.getConfiguration('editor', document);
  const place = {
    isInDocument: document !== undefined,
    isServed: document !== undefined && SCHEMES.includes(document.uri.scheme),
    showsGhostText: settings.get('inlineSuggest.enabled', true),
  };
  const textDocument = { uri: document?.uri.toString() };
  const { client } = supervisor;
  const text =
    reasonHere(statusBar.view, place) ??
    (client === undefined
      ? statusBar.view.message
      : reasonOf(await client.sendRequest('tabahead/explain', { textDocument })));
  if ((await vscode.window.showInformationMessage(`tabahead: ${text}`, 'Open Log')) !== undefined) {
    log.show();
  }
}

async function withTool(
  { supervisor, statusBar, log }: Parts,
  use: (tool: Program) => Promise<void>,
): Promise<void> {
  const { found } = supervisor;
  if (found === undefined) {
    void vscode.window.showErrorMessage(`tabahead: ${statusBar.view.message}`);
    return;
  }
  try {
    await use(found.tool);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    log.error(message);
    void vscode.window.showErrorMessage(`tabahead: ${message}`);
  }
}

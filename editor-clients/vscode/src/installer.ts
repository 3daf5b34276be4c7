/** Offers to install or update the server, and does it with progress that can be cancelled. */
import * as vscode from 'vscode';
import { install, InstallCancelled, isMadeOf } from './core/install';
import { run } from './core/run';
import { ownEnvironment, serverSource, surroundings } from './machine';

export interface Folders {
  /** What the extension keeps on this machine. */
  readonly storage: string;
  /** What it has come with. */
  readonly extension: string;
}

/** Remembers the mark of what the user does not want. */
const SKIPPED = 'update.skipped';

/** Whether the user wants it. */
export async function offerInstallation(): Promise<boolean> {
  const actions = ['Install', 'Open Settings'] as const;
  const question =
    'tabahead has no server on this machine. Install it with pip into an environment of its own,' +
    " in this extension's storage?";
  const action = await vscode.window.showInformationMessage(question, ...actions);
  if (action === 'Open Settings') {
    await vscode.commands.executeCommand('workbench.action.openSettings', 'tabahead.server');
  }
  return action === 'Install';
}

/** Whether another server would be installed now than is in the extension's own environment. */
export async function isOutdated({ storage, extension }: Folders): Promise<boolean> {
  return !(await isMadeOf(ownEnvironment(storage), await serverSource(extension)));
}

/** Whether the user wants it. */
export async function offerUpdate(folders: Folders, memory: vscode.Memento): Promise<boolean> {
  const { mark } = await serverSource(folders.extension);
  if (memory.get(SKIPPED) === mark) {
    return false;
  }
  const actions = ['Update', 'Skip This Update'] as const;
  const question =
    "The server in tabahead's own environment is not the one that this extension would install" +
    ' now. Update it with pip?';
  const action = await vscode.window.showInformationMessage(question, ...actions);
  if (action === 'Skip This Update') {
    await memory.update(SKIPPED, mark);
  }
  return action === 'Update';
}

/** Whether it is there now; failures are shown. */
export async function installServer(
  { storage, extension }: Folders,
  log: vscode.LogOutputChannel,
): Promise<boolean> {
  const location = vscode.ProgressLocation.Notification;
  const task = { location, title: 'tabahead', cancellable: true };
  try {
    await vscode.window.withProgress(task, async (progress, token) => {
      const controller = new AbortController();
      token.onCancellationRequested(() => {
        controller.abort();
      });
      const onLine = (line: string): void => {
        log.info(line);
      };
      const options = { ...surroundings(storage), signal: controller.signal, onLine };
      const report = (message: string): void => {
        progress.report({ message });
      };
      const source = await serverSource(extension);
      await install({ ...ownEnvironment(storage), source, options, report }, run);
    });
    return true;
  } catch (error) {
    if (!(error instanceof InstallCancelled)) {
      const message = error instanceof Error ? error.message : String(error);
      log.error(message);
      void vscode.window.showErrorMessage(`tabahead: ${message}`, 'Open Log').then((action) => {
        if (action !== undefined) {
          log.show();
        }
      });
    }
    return false;
  }
}

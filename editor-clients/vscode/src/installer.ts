/** Offers to install the server, and does it with progress that can be cancelled. */
import * as vscode from 'vscode';
import { install, InstallCancelled } from './core/install';
import { run } from './core/run';
import { ownEnvironment, surroundings } from './machine';

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

/** Whether it is there now; failures are shown. */
export async function installServer(
  storage: string,
  log: vscode.LogOutputChannel,
): Promise<boolean> {
  const settings = vscode.workspace.getConfiguration('tabahead.server');
  const requirement = settings.get('package', 'tabahead[cpu,syntax]');
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
      await install({ ...ownEnvironment(storage), requirement, options, report }, run);
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

/** The server of this window: which one, its client, and a word to the user where it stays down. */
import * as vscode from 'vscode';
import type { LanguageClient, Middleware } from 'vscode-languageclient/node';
import { launch, type Running } from './client';
import { findServer, type Found } from './core/findServer';
import type { Status } from './core/status';
import { Supervisor } from './core/supervisor';
import { serverSettings, surroundings, thisMachine } from './machine';

export interface Options {
  readonly storage: string;
  readonly log: vscode.LogOutputChannel;
  readonly middleware: Middleware;
  readonly onStatus: (status: Status) => void;
  readonly onStart: () => void;
  readonly onAbsent: () => void;
}

export class ServerSupervisor extends Supervisor<Running> {
  private readonly storage: string;

  constructor({ storage, log, middleware, onStatus, onStart, onAbsent }: Options) {
    super({
      ...{ log, onStatus, onStart, onAbsent },
      find: () => findServer(serverSettings(), thisMachine(storage)),
      launch: (program, signal) =>
        launch({ ...surroundings(storage), program, signal, log, middleware, onStatus }),
      onGivenUp: (problem) => void this.offerHelp(problem),
    });
    this.storage = storage;
  }

  get client(): LanguageClient | undefined {
    return this.server?.client;
  }

  /** The server as it would be found now. */
  get found(): Found | undefined {
    const found = findServer(serverSettings(), thisMachine(this.storage));
    return found !== undefined && 'serve' in found ? found : undefined;
  }

  private async offerHelp(problem: string): Promise<void> {
    const actions = ['Restart', 'Open Log', 'Open Settings'] as const;
    const action = await vscode.window.showErrorMessage(`tabahead: ${problem}`, ...actions);
    switch (action) {
      case 'Restart':
        return this.restart();
      case 'Open Log':
        return vscode.commands.executeCommand('tabahead.openLog');
      case 'Open Settings':
        return vscode.commands.executeCommand('workbench.action.openSettings', 'tabahead.server');
      default:
        return undefined;
    }
  }
}

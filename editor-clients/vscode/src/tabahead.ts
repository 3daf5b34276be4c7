/** The parts of the extension and how they hear of each other. */
import * as vscode from 'vscode';
import { keyOf, registerCommands } from './commands';
import { FilesOff } from './core/filesOff';
import { OWN_ENVIRONMENT } from './core/findServer';
import { Pause } from './core/pause';
import {
  installServer,
  isOutdated,
  offerInstallation,
  offerUpdate,
  type Folders,
} from './installer';
import { serverSettings } from './machine';
import { middlewareOf } from './middleware';
import { noticeOtherProviders } from './notice';
import { Statistics } from './statistics';
import { StatusBar } from './statusBar';
import { ServerSupervisor } from './supervisor';

const FILES_OFF = 'filesOff';

export class Tabahead {
  /** The settings that name it, as last seen. */
  private server = JSON.stringify(serverSettings());
  readonly log = vscode.window.createOutputChannel('tabahead', { log: true });
  readonly storage: string;
  readonly filesOff: FilesOff;
  readonly pause: Pause;
  readonly statusBar: StatusBar;
  readonly statistics: Statistics;
  readonly supervisor: ServerSupervisor;
  private isInstalling = false;

  constructor(private readonly context: vscode.ExtensionContext) {
    this.storage = context.globalStorageUri.fsPath;
    this.filesOff = new FilesOff({
      read: () => context.workspaceState.get<string[]>(FILES_OFF, []),
      write: (uris) => void context.workspaceState.update(FILES_OFF, uris),
    });
    this.pause = new Pause((isPaused) => {
      void vscode.commands.executeCommand('setContext', 'tabahead.paused', isPaused);
      this.statusBar.update();
      this.tellPause();
    });
    this.statusBar = new StatusBar(
      () => this.pause.isOn,
      () => {
        const document = vscode.window.activeTextEditor?.document;
        return document !== undefined && this.isOff(document);
      },
    );
    this.statistics = new Statistics(this.storage);
    this.supervisor = this.supervise();
    context.subscriptions.push(
      ...[this.log, this.statusBar, this.statistics, this.pause, this.supervisor],
      ...registerCommands(this),
      ...this.listen(),
    );
  }

  async start(): Promise<void> {
    void noticeOtherProviders(this.context.globalState);
    await this.supervisor.restart();
    void this.offerUpdate();
  }

  async install(): Promise<void> {
    this.isInstalling = true;
    await this.supervisor.stop();
    this.statusBar.set({ kind: 'busy', message: 'The server is being installed.' });
    const isInstalled = await installServer(this.folders, this.log);
    await this.supervisor.restart();
    this.isInstalling = false;
    const { found } = this.supervisor;
    if (isInstalled && found !== undefined && found.origin !== OWN_ENVIRONMENT) {
      const message = `The server is installed but not in use: that of ${found.origin} goes before it.`;
      void vscode.window.showInformationMessage(`tabahead: ${message}`);
    }
  }

  private get folders(): Folders {
    return { storage: this.storage, extension: this.context.extensionPath };
  }

  private supervise(): ServerSupervisor {
    const middleware = middlewareOf({
      contributed: contributedSettings(this.context),
      isOff: (document) => this.isOff(document),
      onAnswer: (ms) => {
        this.statusBar.answered(ms);
      },
      onResume: () => {
        this.pause.end();
      },
    });
    return new ServerSupervisor({
      storage: this.storage,
      log: this.log,
      middleware,
      onStatus: (status) => {
        this.statusBar.set(status);
      },
      onStart: () => {
        if (this.pause.isOn) {
          this.tellPause();
        }
      },
      onAbsent: () => void this.offer(),
    });
  }

  private listen(): vscode.Disposable[] {
    return [
      vscode.window.onDidChangeActiveTextEditor(() => {
        this.statusBar.update();
      }),
      vscode.extensions.onDidChange(() => void noticeOtherProviders(this.context.globalState)),
      vscode.workspace.onDidChangeConfiguration(() => {
        // Trust in a workspace is told as a change of all settings, whether or not they differ.
        const server = JSON.stringify(serverSettings());
        if (server !== this.server) {
          this.server = server;
          this.supervisor.restartSoon();
        }
      }),
    ];
  }

  private isOff(document: vscode.TextDocument): boolean {
    return this.filesOff.has(keyOf(document));
  }

  /** The server forgets it when it is started again. */
  private tellPause(): void {
    const command = this.pause.isOn ? 'tabahead.pause' : 'tabahead.resume';
    this.supervisor.client
      ?.sendRequest('workspace/executeCommand', { command })
      // The server is ending just now; the next one is told when it starts.
      .catch((error: unknown) => {
        this.log.debug(`${command}: ${String(error)}`);
      });
  }

  private async offer(): Promise<void> {
    // Who has just cancelled an installation is not asked again.
    if (this.isInstalling || !(await offerInstallation())) {
      return;
    }
    // Another window may have installed it while the question stood there.
    await (this.supervisor.found === undefined ? this.install() : this.supervisor.restart());
  }

  /** The own environment may be that of an earlier version of the extension. */
  private async offerUpdate(): Promise<void> {
    const { found } = this.supervisor;
    try {
      if (
        found?.origin === OWN_ENVIRONMENT &&
        (await isOutdated(this.folders)) &&
        (await offerUpdate(this.folders, this.context.globalState))
      ) {
        // Another window may have updated it while the question stood there.
        await ((await isOutdated(this.folders)) ? this.install() : this.supervisor.restart());
      }
    } catch (error) {
      this.log.warn(error instanceof Error ? error.message : String(error));
    }
  }
}

function contributedSettings(context: vscode.ExtensionContext): string[] {
  const { contributes } = context.extension.packageJSON as {
    contributes: { configuration: { properties: Record<string, unknown> } };
  };
  return Object.keys(contributes.configuration.properties);
}

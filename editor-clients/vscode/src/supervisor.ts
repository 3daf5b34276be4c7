/** Keeps the server running: finds it, starts it, starts it again with growing pauses, gives up. */
import * as vscode from 'vscode';
import type { LanguageClient, Middleware } from 'vscode-languageclient/node';
import { launch, type Running } from './client';
import { findServer, type Found } from './core/findServer';
import { RestartPolicy } from './core/restartPolicy';
import type { Status } from './core/status';
import { serverSettings, surroundings, thisMachine } from './machine';

/** A setting that is being typed changes at each key. */
const SETTLE_MS = 500;

export interface Hooks {
  readonly storage: string;
  readonly log: vscode.LogOutputChannel;
  readonly middleware: Middleware;
  readonly onStatus: (status: Status) => void;
  /** The server has begun to answer, the first time or again. */
  readonly onStart: () => void;
  /** There is no server on this machine. */
  readonly onAbsent: () => void;
}

export class Supervisor implements vscode.Disposable {
  private readonly policy = new RestartPolicy();
  private running: Running | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** One start or stop at a time. */
  private queue: Promise<void> = Promise.resolve();

  constructor(private readonly hooks: Hooks) {}

  get client(): LanguageClient | undefined {
    return this.running?.client;
  }

  /** The server as it would be found now. */
  get found(): Found | undefined {
    const found = findServer(serverSettings(), thisMachine(this.hooks.storage));
    return found !== undefined && 'serve' in found ? found : undefined;
  }

  /** Stop what runs and start afresh, whatever has failed before. */
  restart(): Promise<void> {
    this.policy.reset();
    return this.enqueue(async () => {
      await this.end();
      await this.begin();
    });
  }

  /** `restart`, once there has been no call for a moment. */
  restartSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.restart(), SETTLE_MS);
  }

  /** Until the next `restart`. */
  stop(): Promise<void> {
    return this.enqueue(() => this.end());
  }

  dispose(): void {
    void this.stop();
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    clearTimeout(this.timer);
    const latest = (): Promise<void> => {
      // Work before this may have failed and asked for another start.
      clearTimeout(this.timer);
      return work();
    };
    this.queue = this.queue.then(latest).catch((error: unknown) => {
      this.hooks.log.error(error instanceof Error ? error : String(error));
    });
    return this.queue;
  }

  private async end(): Promise<void> {
    const running = this.running;
    this.running = undefined;
    await running?.stop();
  }

  private async begin(): Promise<void> {
    const { storage, log, middleware, onStatus } = this.hooks;
    const found = findServer(serverSettings(), thisMachine(storage));
    if (found === undefined) {
      onStatus({ kind: 'absent', message: 'The server is not installed.' });
      this.hooks.onAbsent();
      return;
    }
    if ('problem' in found) {
      this.giveUp(found.problem);
      return;
    }
    log.info(`server found by ${found.origin}`);
    onStatus({ kind: 'busy', message: 'Starting.' });
    try {
      const launched = { ...surroundings(storage), program: found.serve };
      const running = await launch({ ...launched, log, middleware, onStatus });
      this.running = running;
      void running.ended.then((how) => this.ended(running, how));
    } catch (error) {
      this.failed(error instanceof Error ? error.message : String(error));
      return;
    }
    this.hooks.onStart();
  }

  /** The process has ended; by itself where it is still the one in use. */
  private async ended(running: Running, how: string): Promise<void> {
    if (this.running === running) {
      await this.enqueue(() => this.end());
      this.failed(how);
    }
  }

  private failed(how: string): void {
    const delay = this.policy.failed();
    if (delay === undefined) {
      this.giveUp(`The server does not stay up (${how}).`);
      return;
    }
    this.hooks.log.warn(`the server has ended (${how}); starting it again in ${delay} ms`);
    this.hooks.onStatus({
      kind: 'busy',
      message: `The server has ended (${how}); starting again.`,
    });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.enqueue(() => this.begin()), delay);
  }

  private giveUp(problem: string): void {
    this.hooks.log.error(problem);
    this.hooks.onStatus({ kind: 'stopped', message: problem });
    const actions = ['Restart', 'Open Log', 'Open Settings'] as const;
    void vscode.window.showErrorMessage(`tabahead: ${problem}`, ...actions).then((action) => {
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
    });
  }
}

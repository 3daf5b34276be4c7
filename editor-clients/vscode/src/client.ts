/** One process of the server and the client that talks to it, from start to end. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import type { LogOutputChannel } from 'vscode';
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  State,
  type Middleware,
} from 'vscode-languageclient/node';
import type { Program } from './core/findServer';
import { parseLine } from './core/log';
import { parseStatus, type Status } from './core/status';

/** Of the documents that the server is told of. */
export const SCHEMES: readonly string[] = ['file', 'untitled', 'vscode-notebook-cell'];

/** How long the server may take to answer first: a slow disk has Python to read. */
const START_MS = 60_000;

/** How long after the connection breaks the end of the process may become known. */
const END_MS = 1000;

/** How long the server may take to end after it has been asked to. */
const STOP_MS = 2000;

export interface Launch {
  readonly program: Program;
  /** Ends the wait for its first answer. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  readonly env: Record<string, string | undefined>;
  readonly log: LogOutputChannel;
  readonly middleware: Middleware;
  readonly onStatus: (status: Status) => void;
}

export interface Running {
  readonly client: LanguageClient;
  /** Resolves when the process has ended: how, in words. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

/**
 * Errors are a line in the log: the library's pop-ups and stacks would come at each failed request
 * and at each start.
 */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    this.outputChannel.warn(data instanceof Error ? `${message} ${data.message}` : message);
  }
}

/** Rejects where the server cannot be started or ends before it has answered. */
export async function launch(options: Launch): Promise<Running> {
  const { program, signal, cwd, env, log } = options;
  log.info(`starting ${[program.file, ...program.args].join(' ')}`);
  const child = spawn(program.file, program.args, { cwd, env, windowsHide: true });
  // Rejects with the reason where there is no such program.
  await once(child, 'spawn');
  let lastLine = '';
  const ended = endOf(child, () => lastLine);
  const client = new QuietClient('tabahead', 'tabahead', () => Promise.resolve(child), {
    documentSelector: SCHEMES.map((scheme) => ({ scheme })),
    initializationOptions: { status: true },
    outputChannel: log,
    middleware: options.middleware,
    initializationFailedHandler: () => false,
    // Whether there is another start is decided elsewhere, with a new client.
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue }),
      closed: () => ({
        action: CloseAction.DoNotRestart,
        handled: true,
        message: 'the connection to the server has closed',
      }),
    },
    stdioOptions: {
      stdout: () => undefined,
      stderr: (input) => {
        follow(input, log, (line) => (lastLine = line));
      },
    },
  });
  client.onNotification('tabahead/status', (params: unknown) => {
    const status = parseStatus(params);
    if (status !== undefined) {
      options.onStatus(status);
    }
  });
  const running = { client, ended, stop: () => stop(client, child, log) };
  try {
    const late = setTimeout(START_MS, 'no answer within a minute', { ref: false });
    const failed = Promise.race([ended, late]).then((how) => Promise.reject(new Error(how)));
    await Promise.race([client.start(), failed, rejectAt(signal)]);
  } catch (error) {
    const how = await Promise.race([ended, setTimeout(signal.aborted ? 0 : END_MS, undefined)]);
    await running.stop();
    throw how === undefined ? error : new Error(how);
  }
  return running;
}

function rejectAt(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => {
      reject(new Error('stopped before it has answered'));
    };
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) {
      stop();
    }
  });
}

async function endOf(child: ChildProcess, lastLine: () => string): Promise<string> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  const how = signal === null ? `exit code ${code ?? 'unknown'}` : `signal ${signal}`;
  return lastLine() === '' ? how : `${how}: ${lastLine()}`;
}

function follow(input: Readable, log: LogOutputChannel, heard: (line: string) => void): void {
  createInterface({ input }).on('line', (line) => {
    const { level, text } = parseLine(line);
    log[level](text);
    if (level === 'error' && text.trim() !== '') {
      heard(text);
    }
  });
}

async function stop(
  client: LanguageClient,
  child: ChildProcess,
  log: LogOutputChannel,
): Promise<void> {
  try {
    if (client.state === State.Running) {
      await client.stop(STOP_MS);
    }
  } catch (error) {
    // It was on its way out already, or hangs; either way the process is ended below.
    log.debug(`stopping the server: ${String(error)}`);
  }
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exit = once(child, 'exit');
  child.kill();
  if ((await Promise.race([exit, setTimeout(STOP_MS, undefined)])) === undefined) {
    child.kill('SIGKILL');
    await exit;
  }
}

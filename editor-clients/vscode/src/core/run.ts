/** Programs that run to their end without input; cancelled with everything they have started. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Program } from './findServer';

export interface RunOptions {
  readonly cwd: string;
  readonly env: Record<string, string | undefined>;
  readonly signal?: AbortSignal;
  /** Hears each line of stdout and stderr. */
  readonly onLine?: (line: string) => void;
}

export interface Outcome {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Rejects where the program cannot be started. */
export type Run = (program: Program, options: RunOptions) => Promise<Outcome>;

export const run: Run = ({ file, args }, { cwd, env, signal, onLine }) =>
  new Promise((resolve, reject) => {
    // In a group of its own, since pip and venv start further processes.
    const detached = process.platform !== 'win32';
    const child = spawn(file, args, {
      ...{ cwd, env, detached, windowsHide: true },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const texts = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      const stream = child[name].setEncoding('utf8');
      stream.on('data', (text: string) => (texts[name] += text));
      createInterface({ input: stream }).on('line', (line) => onLine?.(line));
    }
    const cancel = (): void => {
      endTree(child);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    child.once('error', reject);
    child.once('close', (code) => {
      signal?.removeEventListener('abort', cancel);
      resolve({ code, ...texts });
    });
    if (signal?.aborted) {
      cancel();
    }
  });

function endTree(child: ChildProcess): void {
  if (child.pid === undefined) {
    return;
  }
  if (process.platform === 'win32') {
    spawn('taskkill', ['/pid', String(child.pid), '/T', '/F'], { windowsHide: true });
    return;
  }
  try {
    process.kill(-child.pid, 'SIGTERM');
  } catch (error) {
    // It has ended just now, which is what was wanted.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') {
      throw error;
    }
  }
}

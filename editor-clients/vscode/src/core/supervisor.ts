/** Keeps the server running: finds it, starts it, starts it again with growing pauses, gives up. */
import type { Found, Program, Wrong } from './findServer';
import { RestartPolicy } from './restartPolicy';
import type { Status } from './status';

/** A setting that is being typed changes at each key. */
export const SETTLE_MS = 500;

export interface Server {
  /** Resolves when the process has ended: how, in words. */
  readonly ended: Promise<string>;
  stop(): Promise<void>;
}

export interface Log {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

export interface Hooks<S extends Server> {
  readonly log: Log;
  readonly find: () => Found | Wrong | undefined;
  /** Rejects where it does not start, and soon once `signal` is given. */
  readonly launch: (program: Program, signal: AbortSignal) => Promise<S>;
  readonly onStatus: (status: Status) => void;
  /** The server has begun to answer, the first time or again. */
  readonly onStart: () => void;
  /** There is no server on this machine. */
  readonly onAbsent: () => void;
  /** It is not started again by itself, and why. */
  readonly onGivenUp: (problem: string) => void;
}

export class Supervisor<S extends Server> {
  private readonly policy = new RestartPolicy();
  private running: S | undefined;
  private timer: NodeJS.Timeout | undefined;
  private starting: AbortController | undefined;
  /** One start or stop at a time. */
  private queue: Promise<void> = Promise.resolve();

  constructor(private readonly hooks: Hooks<S>) {}

  get server(): S | undefined {
    return this.running;
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
    // A program that never answers would be waited for.
    this.starting?.abort();
    const latest = (): Promise<void> => {
      // Work before this may have failed and asked for another start.
      clearTimeout(this.timer);
      return work();
    };
    this.queue = this.queue.then(latest).catch((error: unknown) => {
      this.hooks.log.error(messageOf(error));
    });
    return this.queue;
  }

  private async end(): Promise<void> {
    const running = this.running;
    this.running = undefined;
    await running?.stop();
  }

  private async begin(): Promise<void> {
    const { log, find, launch, onStatus } = this.hooks;
    const found = find();
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
    const starting = new AbortController();
    this.starting = starting;
    try {
      const running = await launch(found.serve, starting.signal);
      this.running = running;
      void running.ended.then((how) => this.ended(running, how));
    } catch (error) {
      if (!starting.signal.aborted) {
        this.failed(messageOf(error));
      }
      return;
    } finally {
      this.starting = undefined;
    }
    this.hooks.onStart();
  }

  /** The process has ended; by itself where it is still the one in use. */
  private async ended(running: S, how: string): Promise<void> {
    if (this.running !== running) {
      return;
    }
    await this.enqueue(async () => {
      // Somebody may have stopped it at the same moment.
      if (this.running === running) {
        await this.end();
        this.failed(how);
      }
    });
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
    this.hooks.onGivenUp(problem);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

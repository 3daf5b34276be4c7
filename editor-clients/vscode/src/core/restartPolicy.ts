/** How long to wait before a server that has ended is started again, and when to give up. */

/** Before the first restart, the second, and so on; after the last one it is left alone. */
export const DELAYS_MS: readonly number[] = [500, 1000, 2000, 4000, 8000];

/** A failure so long ago says nothing of the next one. */
export const MEMORY_MS = 3 * 60_000;

export class RestartPolicy {
  private failures: number[] = [];

  constructor(private readonly now: () => number = Date.now) {}

  /** The server has ended by itself: how long to wait; undefined: it will not stay up. */
  failed(): number | undefined {
    const now = this.now();
    this.failures = this.failures.filter((time) => now - time < MEMORY_MS);
    const delay = DELAYS_MS[this.failures.length];
    this.failures.push(now);
    return delay;
  }

  /** The user has asked for a start: what was before does not count. */
  reset(): void {
    this.failures = [];
  }
}

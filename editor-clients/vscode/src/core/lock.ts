/** Work that one process of this machine does at a time, such as making what all use. */
import { setTimeout } from 'node:timers/promises';
import { lock } from 'proper-lockfile';

/** Between two tries to be the one. */
const RETRY_MS = 500;
/** Who has not said for so long that it is still at work is gone. */
const STALE_MS = 15_000;

export interface Locking {
  /** A folder of this name is there while somebody works; the one that it is in must be, too. */
  readonly file: string;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  readonly onWait: () => void;
}

/** `work` is told whether somebody else was at it before. */
export async function alone<T>(
  locking: Locking,
  work: (hasWaited: boolean) => Promise<T>,
): Promise<T> {
  let release = await take(locking.file);
  const hasWaited = release === undefined;
  if (hasWaited) {
    locking.onWait();
  }
  while (release === undefined) {
    await setTimeout(RETRY_MS, undefined, { signal: locking.signal });
    release = await take(locking.file);
  }
  try {
    return await work(hasWaited);
  } finally {
    await release();
  }
}

/** undefined: somebody else works. */
async function take(file: string): Promise<(() => Promise<void>) | undefined> {
  let isOurs = true;
  try {
    const release = await lock(file, {
      lockfilePath: file,
      realpath: false,
      stale: STALE_MS,
      // Whoever has taken the lock away believes that we are gone; that cannot be helped.
      onCompromised: () => {
        isOurs = false;
      },
    });
    return () => (isOurs ? release() : Promise.resolve());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOCKED') {
      return undefined;
    }
    throw error;
  }
}

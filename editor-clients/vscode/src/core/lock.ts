/** Work that one process of this machine does at a time, such as making what all use. */
import { rm, stat, utimes, writeFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';

export interface Times {
  /** How often the owner says that it is still at work, and the others look. */
  readonly beatMs: number;
  /** Who says nothing between so many looks is gone. */
  readonly looks: number;
}

const TIMES: Times = { beatMs: 500, looks: 30 };

export interface Locking {
  /** Is there while somebody works. */
  readonly file: string;
  /** Ends the wait. */
  readonly signal: AbortSignal;
  readonly onWait: () => void;
  readonly times?: Times;
}

/** `work` is told whether somebody else was at it before. */
export async function alone<T>(
  { file, signal, onWait, times = TIMES }: Locking,
  work: (hasWaited: boolean) => Promise<T>,
): Promise<T> {
  const hasWaited = !(await take(file));
  if (hasWaited) {
    onWait();
    await waitFor(file, signal, times);
  }
  const beat = setInterval(() => {
    const now = new Date();
    // Whoever has taken the file away believes that we are gone; that cannot be helped.
    utimes(file, now, now).catch(() => undefined);
  }, times.beatMs);
  try {
    return await work(hasWaited);
  } finally {
    clearInterval(beat);
    await rm(file, { force: true });
  }
}

/** Looks are counted, since no clock tells how long this process or the machine has slept. */
async function waitFor(file: string, signal: AbortSignal, times: Times): Promise<void> {
  let last: number | undefined;
  let numSame = 0;
  while (!(await take(file))) {
    const touched = await lastBeat(file);
    numSame = touched === last ? numSame + 1 : 0;
    last = touched;
    if (numSame >= times.looks) {
      await rm(file, { force: true });
      continue;
    }
    await setTimeout(times.beatMs, undefined, { signal });
  }
}

async function take(file: string): Promise<boolean> {
  try {
    await writeFile(file, '', { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      return false;
    }
    throw error;
  }
}

async function lastBeat(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

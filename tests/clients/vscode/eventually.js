// Waiting: every wait of these tests is for a condition, with a deadline.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** Generous: a busy machine would fail a test that is right. */
export const DEADLINE_MS = 60_000;

/** Between two looks at the same thing. */
const PAUSE_MS = 50;

/**
 * Read until `expected` is there, a value, or a pattern that the text must match; what was read.
 * Past the deadline the assertion fails that shows what was there instead.
 */
export async function eventually(read, expected, what = undefined) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const actual = await read();
    try {
      if (expected instanceof RegExp) assert.match(String(actual ?? ''), expected, what);
      else assert.deepEqual(actual, expected, what);
      return actual;
    } catch (difference) {
      if (Date.now() > end) throw difference;
    }
    await sleep(PAUSE_MS);
  }
}

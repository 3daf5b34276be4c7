import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { alone, type Locking } from '../src/core/lock';

const TIMES = { beatMs: 5, looks: 40 };

async function lockIn(t: TestContext, more: Partial<Locking> = {}): Promise<Locking> {
  const root = await mkdtemp(join(tmpdir(), 'tabahead-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const { signal } = new AbortController();
  return { file: join(root, 'lock'), signal, onWait: () => undefined, times: TIMES, ...more };
}

test('one works at a time, and the others hear that somebody was before them', async (t) => {
  const lock = await lockIn(t);
  const done: string[] = [];
  const work = (name: string) => async (hasWaited: boolean) => {
    done.push(`${name} begins${hasWaited ? ' later' : ''}`);
    await setTimeout(2 * TIMES.beatMs * TIMES.looks); // longer than who is gone is waited for
    done.push(`${name} ends`);
  };
  await Promise.all([alone(lock, work('first')), alone(lock, work('second'))]);
  const [one, other] = done[0] === 'first begins' ? ['first', 'second'] : ['second', 'first'];
  assert.deepEqual(done, [
    `${one} begins`,
    `${one} ends`,
    `${other} begins later`,
    `${other} ends`,
  ]);
  assert.ok(!existsSync(lock.file));
});

test('work that fails lets the next begin', async (t) => {
  const lock = await lockIn(t);
  await assert.rejects(
    alone(lock, () => Promise.reject(new Error('no room'))),
    /no room/,
  );
  assert.equal(await alone(lock, (hasWaited) => Promise.resolve(hasWaited)), false);
});

test('somebody who is gone is not waited for', async (t) => {
  const lock = await lockIn(t);
  await writeFile(lock.file, '');
  assert.equal(await alone(lock, (hasWaited) => Promise.resolve(hasWaited)), true);
});

test('the wait can be ended, and leaves the others alone', async (t) => {
  const controller = new AbortController();
  const lock = await lockIn(t, {
    signal: controller.signal,
    onWait: () => {
      controller.abort();
    },
  });
  await writeFile(lock.file, '');
  await assert.rejects(
    alone(lock, () => Promise.reject(new Error('has begun'))),
    /abort/i,
  );
  assert.ok(existsSync(lock.file));
});

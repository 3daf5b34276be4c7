import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { alone, type Locking } from '../src/core/lock';

async function lockIn(t: TestContext, more: Partial<Locking> = {}): Promise<Locking> {
  const root = await mkdtemp(join(tmpdir(), 'tabahead-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const { signal } = new AbortController();
  return { file: join(root, 'lock'), signal, onWait: () => undefined, ...more };
}

test('one works at a time, and the others hear that somebody was before them', async (t) => {
  const lock = await lockIn(t);
  const done: string[] = [];
  const work = (name: string) => async (hasWaited: boolean) => {
    done.push(`${name} begins${hasWaited ? ' later' : ''}`);
    await setTimeout(20); // time in which the other could begin
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
  const longAgo = new Date(Date.now() - 60_000);
  await mkdir(lock.file);
  await utimes(lock.file, longAgo, longAgo);
  assert.equal(await alone(lock, () => Promise.resolve('done')), 'done');
  assert.ok(!existsSync(lock.file));
});

test('the wait can be ended, and leaves the others alone', async (t) => {
  const controller = new AbortController();
  const lock = await lockIn(t, {
    signal: controller.signal,
    onWait: () => {
      controller.abort();
    },
  });
  await mkdir(lock.file);
  await assert.rejects(
    alone(lock, () => Promise.reject(new Error('has begun'))),
    /abort/i,
  );
  assert.ok(existsSync(lock.file));
});

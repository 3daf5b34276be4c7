import assert from 'node:assert/strict';
import { mock, test, type TestContext } from 'node:test';
import type { Found, Wrong } from '../src/core/findServer';
import { DELAYS_MS, MEMORY_MS } from '../src/core/restartPolicy';
import { SETTLE_MS, Supervisor, type Server } from '../src/core/supervisor';

const PROGRAM = { file: '/bin/tabahead', args: ['--stdio'] };
const FOUND: Found = { serve: PROGRAM, tool: PROGRAM, origin: 'PATH' };

/** Until all that waits for no clock is done. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** What is launched, and what is heard of it, on a clock that stands still. */
class Stage {
  found: Found | Wrong | undefined = FOUND;
  /** The next launches fail so; undefined: they succeed. */
  fault: string | undefined;
  /** The next launches wait for this, or for their signal. */
  answer: Promise<void> = Promise.resolve();
  numLaunched = 0;
  readonly up = new Set<object>();
  readonly heard: string[] = [];
  /** To stop one takes as long. */
  stopping: Promise<void> = Promise.resolve();
  end: (how: string) => void = () => undefined;

  readonly supervisor = new Supervisor<Server>({
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    find: () => this.found,
    launch: (_program, signal) => this.launch(signal),
    onStatus: ({ kind }) => this.heard.push(kind),
    onStart: () => this.heard.push('start'),
    onAbsent: () => this.heard.push('offer'),
    onGivenUp: (problem) => this.heard.push(problem),
  });

  static on(t: TestContext): Stage {
    mock.timers.enable({ apis: ['setTimeout', 'Date'] });
    t.after(() => {
      mock.timers.reset();
    });
    return new Stage();
  }

  async wait(ms: number): Promise<void> {
    await settled();
    mock.timers.tick(ms);
    await settled();
  }

  async die(how = 'exit code 1'): Promise<void> {
    this.end(how);
    await settled();
  }

  private async launch(signal: AbortSignal): Promise<Server> {
    this.numLaunched++;
    const stopped = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(new Error('stopped'));
      });
    });
    await Promise.race([this.answer, stopped]);
    if (this.fault !== undefined) {
      throw new Error(this.fault);
    }
    const one = {};
    this.up.add(one);
    const ended = new Promise<string>((resolve) => {
      this.end = (how) => {
        this.up.delete(one);
        resolve(how);
      };
    });
    const stop = (): Promise<void> => {
      this.end('stopped');
      return this.stopping;
    };
    return { ended, stop };
  }
}

test('a server that ends is started again, each time later, and given up at last', async (t) => {
  const stage = Stage.on(t);
  await stage.supervisor.restart();
  for (const delay of DELAYS_MS) {
    await stage.die();
    const { numLaunched } = stage;
    await stage.wait(delay - 1);
    assert.equal(stage.numLaunched, numLaunched);
    await stage.wait(1);
    assert.equal(stage.numLaunched, numLaunched + 1);
    assert.equal(stage.up.size, 1);
  }
  await stage.die('signal SIGSEGV');
  assert.deepEqual(stage.heard.slice(-2), [
    'stopped',
    'The server does not stay up (signal SIGSEGV).',
  ]);
  await stage.wait(MEMORY_MS);
  assert.equal(stage.up.size, 0);
  await stage.supervisor.restart();
  assert.equal(stage.up.size, 1);
});

test('one that does not even start is tried again in the same way', async (t) => {
  const stage = Stage.on(t);
  stage.fault = 'exit code 3';
  await stage.supervisor.restart();
  for (const delay of DELAYS_MS) {
    await stage.wait(delay);
  }
  assert.equal(stage.numLaunched, 1 + DELAYS_MS.length);
  assert.equal(stage.heard.at(-1), 'The server does not stay up (exit code 3).');
  assert.ok(!stage.heard.includes('start'));
});

test('a failure long ago is forgotten', async (t) => {
  const stage = Stage.on(t);
  await stage.supervisor.restart();
  for (let i = 0; i <= DELAYS_MS.length; i++) {
    await stage.wait(MEMORY_MS);
    await stage.die();
    await stage.wait(DELAYS_MS[0] ?? 0);
    assert.equal(stage.up.size, 1);
  }
});

test('stopped, it is not started again, neither at once nor by a start that was due', async (t) => {
  const stage = Stage.on(t);
  await stage.supervisor.restart();
  await stage.supervisor.stop();
  assert.equal(stage.up.size, 0);
  await stage.wait(MEMORY_MS);
  await stage.supervisor.restart();
  await stage.die();
  await stage.supervisor.stop();
  await stage.wait(MEMORY_MS);
  assert.equal(stage.numLaunched, 2);
  assert.equal(stage.supervisor.server, undefined);
});

test('a stop that comes with the end of the server, or right behind it, is a stop', async (t) => {
  const stage = Stage.on(t);
  await stage.supervisor.restart();
  stage.end('exit code 1');
  await stage.supervisor.stop();
  await stage.wait(MEMORY_MS);
  assert.equal(stage.numLaunched, 1);
  await stage.supervisor.restart();
  let isStopped = (): void => undefined;
  stage.stopping = new Promise((resolve) => (isStopped = resolve));
  await stage.die();
  const stop = stage.supervisor.stop();
  isStopped();
  await stop;
  await stage.wait(MEMORY_MS);
  assert.equal(stage.numLaunched, 2);
});

test('restarts in a row leave one server, and settings that change one start', async (t) => {
  const stage = Stage.on(t);
  await Promise.all([1, 2, 3].map(() => stage.supervisor.restart()));
  assert.equal(stage.up.size, 1);
  const { numLaunched } = stage;
  for (let i = 0; i < 5; i++) {
    stage.supervisor.restartSoon();
    await stage.wait(SETTLE_MS - 1);
  }
  assert.equal(stage.numLaunched, numLaunched);
  await stage.wait(1);
  assert.equal(stage.numLaunched, numLaunched + 1);
  assert.equal(stage.up.size, 1);
});

test('a restart while a start is due comes in its place', async (t) => {
  const stage = Stage.on(t);
  await stage.supervisor.restart();
  await stage.die();
  await stage.supervisor.restart();
  await stage.wait(MEMORY_MS);
  assert.equal(stage.numLaunched, 2);
  assert.equal(stage.up.size, 1);
});

test('a program that never answers is not waited for once another start is wanted', async (t) => {
  const stage = Stage.on(t);
  stage.answer = new Promise(() => undefined);
  const first = stage.supervisor.restart();
  await settled();
  stage.answer = Promise.resolve();
  const second = stage.supervisor.restart();
  await settled();
  assert.equal(stage.up.size, 1);
  await Promise.all([first, second]);
  await stage.wait(MEMORY_MS);
  assert.equal(stage.numLaunched, 2);
  assert.deepEqual(stage.heard, ['busy', 'busy', 'start']);
});

test('where there is none it is offered, and a wrong setting is told', async (t) => {
  const stage = Stage.on(t);
  stage.found = undefined;
  await stage.supervisor.restart();
  stage.found = { problem: 'The setting is wrong.' };
  await stage.supervisor.restart();
  await stage.wait(MEMORY_MS);
  assert.deepEqual(stage.heard, ['absent', 'offer', 'stopped', 'The setting is wrong.']);
  assert.equal(stage.numLaunched, 0);
});

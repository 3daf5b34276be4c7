import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Program } from '../src/core/findServer';
import {
  install,
  InstallCancelled,
  InstallError,
  installedPython,
  isMadeOf,
  type Plan,
} from '../src/core/install';
import { run, type Outcome, type Run } from '../src/core/run';
import { sourceOf } from '../src/core/source';

const FINE: Outcome = { code: 0, stdout: '', stderr: '' };
const OTHER = { requirement: 'tabahead==1', mark: 'tabahead==1' };

async function planIn(t: TestContext, more: Partial<Plan> = {}): Promise<Plan> {
  const root = await mkdtemp(join(tmpdir(), 'tabahead-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  return {
    folder: join(root, 'server'),
    platform: 'linux',
    source: { requirement: 'tabahead[cpu] @ file:///a.whl', mark: 'tabahead[cpu] a.whl 01' },
    options: { cwd: root, env: process.env, signal: new AbortController().signal },
    report: () => undefined,
    ...more,
  };
}

/** Plays all programs; `answers` decides by the command line. */
function played(answers: (line: string) => Outcome | Error): { run: Run; lines: string[] } {
  const lines: string[] = [];
  const play = async ({ file, args }: Program): Promise<Outcome> => {
    const line = [file, ...args].join(' ');
    lines.push(line);
    const answer = answers(line);
    if (answer instanceof Error) {
      throw answer;
    }
    if (line.includes('-m venv')) {
      const bin = join(args.at(-1) ?? '', 'bin');
      await mkdir(bin, { recursive: true });
      await writeFile(join(bin, 'python'), '');
    }
    return answer;
  };
  return { run: play, lines };
}

test('an environment is made with the first Python that is new enough, and tried', async (t) => {
  const plan = await planIn(t);
  const { run, lines } = played((line) => {
    if (line.startsWith('python3 ')) {
      return { ...FINE, code: 1 };
    }
    return line.startsWith('python3.14 ') ? new Error('ENOENT') : FINE;
  });
  const python = await install(plan, run);
  assert.equal(python, join(plan.folder, 'bin', 'python'));
  assert.equal(installedPython(plan), python);
  assert.deepEqual(lines.slice(3), [
    `python3.13 -I -m venv --clear ${plan.folder}`,
    `${python} -I -m pip install --disable-pip-version-check --no-input -- ${plan.source.requirement}`,
    `${python} -I -m lsp_server --version`,
  ]);
});

test('without a Python the message says which one is needed', async (t) => {
  const plan = await planIn(t);
  const { run } = played(() => new Error('ENOENT'));
  await assert.rejects(install(plan, run), (error: Error) => {
    assert.ok(error instanceof InstallError);
    assert.match(error.message, /Python 3\.11 or later .*tabahead\.server\.python/);
    return true;
  });
});

test('what fails leaves nothing behind and tells what pip said', async (t) => {
  const plan = await planIn(t);
  const { run } = played((line) =>
    line.includes('-m pip')
      ? { code: 1, stdout: 'Looking\n', stderr: 'ERROR: No matching distribution\nhint\n' }
      : FINE,
  );
  await assert.rejects(install(plan, run), /installed \(No matching distribution\); see the log/);
  assert.ok(!existsSync(plan.folder));
  assert.equal(installedPython(plan), undefined);
});

test('what was installed before stays where an update fails, and goes where it does not', async (t) => {
  const plan = await planIn(t);
  await install({ ...plan, source: OTHER }, played(() => FINE).run);
  const { run } = played((line) => (line.includes('-m pip') ? { ...FINE, code: 1 } : FINE));
  await assert.rejects(install(plan, run), InstallError);
  assert.ok(installedPython(plan) !== undefined);
  assert.equal(await readFile(join(plan.folder, 'complete'), 'utf8'), 'tabahead==1\n');
  await install(plan, played(() => FINE).run);
  assert.equal(await readFile(join(plan.folder, 'complete'), 'utf8'), `${plan.source.mark}\n`);
  assert.deepEqual(await readdir(plan.options.cwd), ['server']);
});

test('a second window waits for the first, and uses what that has made', async (t) => {
  const steps: string[] = [];
  const plan = await planIn(t);
  const { run, lines } = played(() => FINE);
  const others = played(() => new Error('not to be run'));
  const report = (step: string): unknown => steps.push(step);
  const [first, second] = await inTwoWindows([plan, run], [{ ...plan, report }, others.run]);
  assert.equal(second, first);
  assert.deepEqual(steps, ['waiting for another window that installs it']);
  assert.deepEqual(others.lines, []);
  assert.equal(lines.filter((line) => line.includes('venv')).length, 1);
});

test('a second window makes it anew where the first has failed or was told another', async (t) => {
  const plan = await planIn(t);
  for (const code of [1, 0]) {
    const { run } = played((line) => (line.includes('-m pip') ? { ...FINE, code } : FINE));
    const other = { ...plan, source: OTHER };
    const [first, second] = await inTwoWindows([other, run], [plan, played(() => FINE).run]);
    assert.equal(second, installedPython(plan));
    assert.equal(first instanceof InstallError, code === 1);
    assert.equal(await readFile(join(plan.folder, 'complete'), 'utf8'), `${plan.source.mark}\n`);
    await rm(plan.folder, { recursive: true });
  }
});

/** What comes of both: the second begins while the first is at work, which ends once that waits. */
async function inTwoWindows(
  [plan, run]: [Plan, Run],
  [otherPlan, otherRun]: [Plan, Run],
): Promise<[unknown, string]> {
  const [isAtWork, begin] = gate();
  const [isWaiting, wait] = gate();
  const slow: Run = async (program, options) => {
    begin();
    await isWaiting;
    return run(program, options);
  };
  const first = install(plan, slow).catch((error: unknown) => error);
  await isAtWork;
  const report = (step: string): void => {
    otherPlan.report(step);
    wait();
  };
  const second = install({ ...otherPlan, report }, otherRun);
  return [await first, await second];
}

function gate(): [Promise<void>, () => void] {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return [opened, open];
}

test('what another server would be installed in the place of is told', async (t) => {
  const plan = await planIn(t);
  assert.equal(await isMadeOf(plan, plan.source), false);
  await install(plan, played(() => FINE).run);
  assert.equal(await isMadeOf(plan, plan.source), true);
  // The folder of the extension has its version in its name: a path says nothing of the wheel.
  assert.equal(await isMadeOf(plan, { ...plan.source, requirement: 'elsewhere' }), true);
  assert.equal(await isMadeOf(plan, { ...plan.source, mark: 'tabahead[cpu] a.whl 02' }), false);
});

test('an installation that was interrupted counts as none', async (t) => {
  const plan = await planIn(t);
  await install(plan, played(() => FINE).run);
  await rm(join(plan.folder, 'complete'));
  assert.equal(installedPython(plan), undefined);
});

test('cancelled at any step, it says so and leaves nothing behind', async (t) => {
  for (const step of ['-c', '-m venv', '-m pip', '--version']) {
    const controller = new AbortController();
    const plan = await planIn(t);
    const options = { ...plan.options, signal: controller.signal };
    const { run } = played((line) => {
      if (line.includes(step)) {
        controller.abort();
        return { ...FINE, code: null };
      }
      return FINE;
    });
    await assert.rejects(install({ ...plan, options }, run), InstallCancelled);
    assert.ok(!existsSync(plan.folder), step);
  }
});

test('what pip is at is told', async (t) => {
  const steps: string[] = [];
  const plan = await planIn(t, { report: (step) => steps.push(step) });
  const talking: Run = async (program, options) => {
    if (program.args.includes('pip')) {
      options.onLine?.('Collecting onnxruntime>=1.31 (from tabahead)');
      options.onLine?.('  Using cached x.whl');
      options.onLine?.('Installing collected packages: numpy, onnxruntime');
    }
    return played(() => FINE).run(program, options);
  };
  await install(plan, talking);
  assert.deepEqual(steps, [
    'looking for Python',
    'creating an environment',
    'installing the server',
    'collecting onnxruntime',
    'installing collected',
    'trying the server',
  ]);
});

test('on Windows the launcher is asked, and the environment has its Python elsewhere', async (t) => {
  const plan = await planIn(t, { platform: 'win32' });
  const { run, lines } = played(() => FINE);
  const python = await install(plan, run);
  assert.ok(lines[0]?.startsWith('py -3 -I -c '));
  assert.match(python, /Scripts\\python\.exe$/);
  assert.ok(existsSync(join(plan.folder, 'complete')));
});

test('with a real Python and pip, what the extension has come with is installed', async (t) => {
  const plan = await planIn(t);
  const root = plan.options.cwd;
  const shipped = join(root, 'with blanks, 100%;#1');
  await mkdir(shipped);
  const wheel = join(shipped, 'tabahead-1.0-py3-none-any.whl');
  const made = await run({ file: 'python3', args: ['-I', '-c', MAKE_WHEEL, wheel] }, plan.options)
    .then(({ code }) => code === 0)
    .catch(() => false);
  if (!made) {
    assert.notEqual(process.env.TABAHEAD_REQUIRE_ALL, '1', 'needs python3');
    t.skip('needs python3');
    return;
  }
  const source = await sourceOf('', shipped);
  // Without an index: none is asked for anything of that name.
  const options = { ...plan.options, env: { ...process.env, PIP_NO_INDEX: '1' } };
  const python = await install({ ...plan, options, source }, run);
  const args = ['-P', '-m', 'lsp_server', '--version'];
  const outcome = await run({ file: python, args }, plan.options);
  assert.equal(outcome.stdout.trim(), 'stand-in');
  assert.deepEqual(
    (await readdir(root)).filter((name) => name === 'server'),
    ['server'],
  );
});

const MAKE_WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    info = "tabahead-1.0.dist-info/"
    wheel.writestr("lsp_server/__main__.py", "print('stand-in')")
    lines = ["Metadata-Version: 2.1", "Name: tabahead", "Version: 1.0"]
    lines += ["Provides-Extra: cpu", "Provides-Extra: syntax"]
    wheel.writestr(info + "METADATA", "\\n".join(lines) + "\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "")
`;

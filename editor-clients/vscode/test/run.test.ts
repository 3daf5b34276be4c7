import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from '../src/core/run';

const OPTIONS = { cwd: process.cwd(), env: process.env };

function node(code: string): { file: string; args: string[] } {
  return { file: process.execPath, args: ['-e', code] };
}

test('all output comes back, and each line as it comes', async () => {
  const lines: string[] = [];
  const code = 'process.stdout.write("a\\nb"); console.error("c"); process.exitCode = 3';
  const outcome = await run(node(code), { ...OPTIONS, onLine: (line) => lines.push(line) });
  assert.deepEqual(outcome, { code: 3, stdout: 'a\nb', stderr: 'c\n' });
  assert.deepEqual(lines.sort(), ['a', 'b', 'c']);
});

test('a program that is not there is an error', async () => {
  await assert.rejects(run({ file: '/no/such/program', args: [] }, OPTIONS), /ENOENT/);
});

test('cancelling ends a program with what it has started', async () => {
  const controller = new AbortController();
  // The child of the child keeps the pipe open: `run` ends only when it is gone as well.
  const inner = 'console.log("up"); setInterval(() => {}, 1000)';
  const outer = `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(inner)}], { stdio: "inherit" }); setInterval(() => {}, 1000)`;
  const outcome = await run(node(outer), {
    ...OPTIONS,
    signal: controller.signal,
    onLine: () => {
      controller.abort();
    },
  });
  assert.equal(outcome.code, null);
});

test('what was cancelled before it began ends as well', async () => {
  const outcome = await run(node('setInterval(() => {}, 1000)'), {
    ...OPTIONS,
    signal: AbortSignal.abort(),
  });
  assert.equal(outcome.code, null);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findServer, type Found, type Machine } from '../src/core/findServer';

const NONE = { command: '', python: '' };

function machine(programs: string[], more: Partial<Machine> = {}): Machine {
  return {
    platform: 'linux',
    home: '/home/me',
    env: { PATH: '/usr/bin:/home/me/.local/bin' },
    folders: ['/code/project'],
    ownPython: undefined,
    isProgram: (path) => programs.includes(path),
    ...more,
  };
}

function served(found: ReturnType<typeof findServer>): string[] {
  assert.ok(found !== undefined && 'serve' in found, JSON.stringify(found));
  return [found.serve.file, ...found.serve.args];
}

test('a command of the settings is taken as it is, and before all else', () => {
  const command = ['/opt/tabahead', '--stdio', '--model', 'scripted:/a b.json'];
  const settings = { command, python: '/usr/bin/python3' };
  const here = machine(['/opt/tabahead', '/usr/bin/python3', '/usr/bin/tabahead']);
  assert.deepEqual(served(findServer(settings, here)), command);
});

test('other commands of tabahead are run without what only the server is told', () => {
  const python = '/opt/bin/python';
  const tools: [string[], string[]][] = [
    [
      ['-P', '-m', 'lsp_server', '--stdio', '--model', 'x'],
      ['-P', '-m', 'lsp_server'],
    ],
    [
      ['-m', 'lsp_server', 'serve', '--stdio'],
      ['-m', 'lsp_server'],
    ],
    [
      ['-P', '-m', 'lsp_server'],
      ['-P', '-m', 'lsp_server'],
    ],
  ];
  for (const [args, wanted] of tools) {
    const found = findServer({ command: [python, ...args], python: '' }, machine([python]));
    assert.deepEqual((found as Found).tool, { file: python, args: wanted });
  }
});

test('a string is one program, blanks in its path included, and the home may be short', () => {
  const spaced = '/opt/my tools/tabahead';
  assert.deepEqual(served(findServer({ command: spaced, python: '' }, machine([spaced]))), [
    spaced,
  ]);
  const home = machine(['/home/me/bin/tabahead']);
  assert.deepEqual(served(findServer({ command: '~/bin/tabahead', python: '' }, home)), [
    '/home/me/bin/tabahead',
  ]);
});

test('a Python of the settings never gets the current folder to import from', () => {
  const found = findServer({ command: [], python: '/v/bin/python' }, machine(['/v/bin/python']));
  assert.deepEqual(served(found), ['/v/bin/python', '-P', '-m', 'lsp_server', '--stdio']);
});

test('without settings it is tabahead on the PATH, else the own environment, else none', () => {
  const ownPython = '/storage/server/bin/python';
  const onPath = machine(['/home/me/.local/bin/tabahead'], { ownPython });
  assert.deepEqual(served(findServer(NONE, onPath)), ['/home/me/.local/bin/tabahead', '--stdio']);
  assert.equal(served(findServer(NONE, machine([], { ownPython })))[0], ownPython);
  assert.equal(findServer(NONE, machine([])), undefined);
});

test('what the settings name and is not there is said, and nothing else is started', () => {
  const here = machine(['/usr/bin/tabahead']);
  for (const settings of [
    { command: '/gone/tabahead', python: '' },
    { command: '', python: '/gone/python' },
    // Relative to what? Neither the workspace nor anything else is guessed.
    { command: './tabahead', python: '' },
    { command: ['bin/tabahead', '--stdio'], python: '' },
  ]) {
    const found = findServer(settings, here);
    assert.ok(found !== undefined && 'problem' in found);
    const [name] = [settings.command].flat();
    assert.ok(found.problem.includes(name === '' ? settings.python : String(name)));
    assert.match(found.problem, /setting tabahead\.server\.(command|python)/);
  }
});

test('nothing of a workspace is found on the PATH', () => {
  const env = { PATH: '/code/project/.venv/bin:/code/project:./bin::/code/project2/bin' };
  const inside = ['/code/project/.venv/bin/tabahead', '/code/project/tabahead', 'bin/tabahead'];
  assert.equal(findServer(NONE, machine(inside, { env })), undefined);
  const beside = machine([...inside, '/code/project2/bin/tabahead'], { env });
  assert.equal(served(findServer(NONE, beside))[0], '/code/project2/bin/tabahead');
});

test('on Windows the PATH has its own name, separator and endings', () => {
  const windows = machine(['C:\\Users\\me\\bin\\tabahead.exe'], {
    platform: 'win32',
    home: 'C:\\Users\\me',
    env: { Path: 'D:\\Project\\venv;C:\\Users\\me\\bin' },
    folders: ['d:\\project'],
  });
  assert.equal(served(findServer(NONE, windows))[0], 'C:\\Users\\me\\bin\\tabahead.exe');
  const inside = { ...windows, isProgram: (path: string) => path.startsWith('D:') };
  assert.equal(findServer(NONE, inside), undefined);
});

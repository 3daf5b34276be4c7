import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { menuOf } from '../src/core/menu';
import type { Kind, View } from '../src/core/status';

const KINDS: Kind[] = ['busy', 'normal', 'warning', 'inactive', 'error', 'absent', 'stopped'];

function view(kind: Kind, more: Partial<View> = {}): View {
  return { kind, message: '', isPaused: false, isFileOff: false, ...more };
}

function commands(of: View): string[] {
  return menuOf(of).map(({ command }) => command);
}

test('every entry runs a command that the extension contributes', () => {
  // Tests run in the extension's folder.
  const { contributes } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    contributes: { commands: { command: string }[] };
  };
  const contributed = contributes.commands.map(({ command }) => command);
  for (const kind of KINDS) {
    for (const isPaused of [true, false]) {
      const offered = commands(view(kind, { isPaused }));
      assert.ok(offered.length > 0);
      assert.deepEqual(
        offered.filter((command) => !contributed.includes(command)),
        [],
      );
    }
  }
});

test('a server that runs can be paused, explained, changed, measured and read', () => {
  const offered = commands(view('normal'));
  for (const name of ['pauseTenMinutes', 'explain', 'chooseModel', 'showStatistics', 'openLog']) {
    assert.ok(offered.includes(`tabahead.${name}`), name);
  }
});

test('a pause offers its end, and no second one', () => {
  const offered = commands(view('inactive', { isPaused: true }));
  assert.ok(offered.includes('tabahead.endPause'));
  assert.ok(!offered.includes('tabahead.pauseTenMinutes'));
});

test('where there is no server, the way to one comes first', () => {
  assert.equal(commands(view('absent'))[0], 'tabahead.installServer');
  assert.equal(commands(view('stopped'))[0], 'tabahead.restartServer');
});

test('the entry of the model names the one in use', () => {
  const entry = menuOf(view('normal', { model: 'm' })).find(
    ({ command }) => command === 'tabahead.chooseModel',
  );
  assert.equal(entry?.description, 'm');
});

test('the entry of the file says what it will do', () => {
  const labels = [true, false].map((isFileOff) =>
    menuOf(view('normal', { isFileOff })).find(({ command }) => command === 'tabahead.toggleFile'),
  );
  assert.match(labels[0]?.label ?? '', /Turn on/);
  assert.match(labels[1]?.label ?? '', /Turn off/);
});

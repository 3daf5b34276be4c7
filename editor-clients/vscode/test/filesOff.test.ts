import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FilesOff, MAX_FILES } from '../src/core/filesOff';

function filesOff(stored: string[]): { files: FilesOff; read: () => readonly string[] } {
  let kept: readonly string[] = stored;
  const files = new FilesOff({ read: () => kept, write: (uris) => (kept = uris) });
  return { files, read: () => kept };
}

test('a file is off until it is turned on again, and the store knows', () => {
  const { files, read } = filesOff(['file:///a']);
  assert.ok(files.has('file:///a'));
  assert.equal(files.toggle('file:///b'), true);
  assert.deepEqual(read(), ['file:///a', 'file:///b']);
  assert.equal(files.toggle('file:///a'), false);
  assert.ok(!files.has('file:///a'));
  assert.deepEqual(read(), ['file:///b']);
});

test('the store does not grow for ever, and the newest stay', () => {
  const { files, read } = filesOff(Array.from({ length: MAX_FILES }, (_, i) => `file:///${i}`));
  files.toggle('file:///new');
  assert.equal(read().length, MAX_FILES);
  assert.ok(files.has('file:///new'));
  assert.ok(!files.has('file:///0'));
});

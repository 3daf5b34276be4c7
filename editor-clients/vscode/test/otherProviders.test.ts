import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noticeOf, otherProviders } from '../src/core/otherProviders';

test('other sources of ghost text are known, however their ids are written', () => {
  const ids = ['GitHub.copilot', 'github.copilot-chat', 'ms-python.python', 'TabbyML.vscode-tabby'];
  assert.deepEqual(otherProviders(ids), ['GitHub Copilot', 'Tabby']);
  assert.deepEqual(otherProviders(['tabahead.tabahead', 'vscode.git']), []);
});

test('each is told of once', () => {
  assert.match(noticeOf(['Tabby'], []) ?? '', /^Tabby also shows .* disable it,/);
  assert.equal(noticeOf(['Tabby'], ['Tabby']), undefined);
  assert.match(noticeOf(['Continue', 'Tabby'], ['Tabby']) ?? '', /^Continue and Tabby also show /);
  assert.equal(noticeOf([], []), undefined);
});

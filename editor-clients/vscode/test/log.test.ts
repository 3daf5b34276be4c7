import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLine } from '../src/core/log';

test('lines keep the level that the server gave them', () => {
  const line = 'WARNING lsp_server.server: ignored a message';
  assert.deepEqual(parseLine(line), {
    level: 'warn',
    text: 'lsp_server.server: ignored a message',
  });
  assert.equal(parseLine('INFO a: b').level, 'info');
});

test('what has no level is an error: nobody meant to write it', () => {
  const line = 'python: No module named lsp_server';
  assert.deepEqual(parseLine(line), { level: 'error', text: line });
});

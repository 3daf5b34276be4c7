import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reasonHere, reasonOf } from '../src/core/explanation';
import type { View } from '../src/core/status';

const VIEW: View = { kind: 'normal', message: 'm on CPU.', isPaused: false, isFileOff: false };
const PLACE = { isInDocument: true, isServed: true, showsGhostText: true };

test('what lies on this side is said without asking the server', () => {
  assert.match(reasonHere(VIEW, { ...PLACE, isInDocument: false }) ?? '', /No file/);
  assert.match(reasonHere(VIEW, { ...PLACE, isServed: false }) ?? '', /Only files on disk/);
  assert.match(
    reasonHere(VIEW, { ...PLACE, showsGhostText: false }) ?? '',
    /inlineSuggest\.enabled/,
  );
  assert.equal(reasonHere({ ...VIEW, kind: 'stopped', message: 'It ended.' }, PLACE), 'It ended.');
  assert.match(reasonHere({ ...VIEW, isPaused: true }, PLACE) ?? '', /Resume/);
  assert.match(reasonHere({ ...VIEW, isFileOff: true }, PLACE) ?? '', /off in this file/);
});

test('else the server is asked', () => {
  assert.equal(reasonHere(VIEW, PLACE), undefined);
  assert.equal(
    reasonOf({ reason: 'mid-word', message: 'The cursor is inside a word.' }),
    'The cursor is inside a word. (mid-word)',
  );
  assert.match(reasonOf({ reason: 'mid-word' }), /no text: mid-word/);
  assert.match(reasonOf({ reason: null, text: 'x' }), /had text/);
  assert.match(reasonOf(null), /Nothing has been asked/);
});

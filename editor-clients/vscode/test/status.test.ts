import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entryOf, inWords, parseStatus, type View } from '../src/core/status';

const NORMAL: View = {
  kind: 'normal',
  message: 'smollm2-135m on CPU.',
  model: 'smollm2-135m',
  provider: 'CPU',
  lastMs: 42.6,
  isPaused: false,
  isFileOff: false,
};

test('state, model, provider and last latency are in the entry', () => {
  const { text, tooltip, background } = entryOf(NORMAL);
  assert.equal(text, '$(zap) tabahead 43 ms');
  assert.match(tooltip, /Ready\./);
  assert.match(tooltip, /Model: smollm2-135m/);
  assert.match(tooltip, /Provider: CPU/);
  assert.match(tooltip, /Last answer: 43 ms/);
  assert.equal(background, undefined);
});

test('what is not known is not there', () => {
  const { text, tooltip } = entryOf({
    kind: 'busy',
    message: 'Loading the model.',
    isPaused: false,
    isFileOff: false,
  });
  assert.equal(text, '$(loading~spin) tabahead');
  assert.doesNotMatch(tooltip, /Model:|Provider:|Last answer/);
});

test('trouble is coloured, by how bad it is', () => {
  const backgrounds = (
    ['normal', 'inactive', 'warning', 'absent', 'error', 'stopped'] as const
  ).map((kind) => entryOf({ ...NORMAL, kind }).background);
  assert.deepEqual(backgrounds, [undefined, undefined, 'warning', 'warning', 'error', 'error']);
});

test('a pause and a file that is off are seen at a glance, but do not hide trouble', () => {
  assert.match(entryOf({ ...NORMAL, isPaused: true }).text, /debug-pause/);
  const off = entryOf({ ...NORMAL, isFileOff: true });
  assert.match(off.text, /circle-slash/);
  assert.match(off.tooltip, /Off in this file/);
  assert.match(entryOf({ ...NORMAL, kind: 'error', isFileOff: true }).text, /error/);
});

test('marks in a name stay text', () => {
  const { tooltip } = entryOf({ ...NORMAL, model: 'a_b_[c](command:x)<b>$(zap)' });
  assert.match(tooltip, /a\\_b\\_\\\[c\\\]\\\(command:x\\\)\\<b\\>\\\$\\\(zap\\\)/);
});

test('the notification is read, and nothing else is', () => {
  const params = { kind: 'normal', message: 'm on CPU.', model: 'm', provider: 'CPU', last_ms: 3 };
  const { kind, message, model, provider } = params;
  assert.deepEqual(parseStatus(params), { kind, message, model, provider });
  assert.deepEqual(parseStatus({ kind: 'busy', message: 'Loading.' }), {
    kind: 'busy',
    message: 'Loading.',
    model: undefined,
    provider: undefined,
  });
  for (const bad of [null, 'normal', {}, { kind: 'normal' }, { kind: 'stopped', message: 'x' }]) {
    assert.equal(parseStatus(bad), undefined);
  }
});

test('times are short', () => {
  assert.deepEqual([0.4, 43.4, 994, 995, 1449].map(inWords), [
    '0 ms',
    '43 ms',
    '994 ms',
    '1.0 s',
    '1.4 s',
  ]);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelRows } from '../src/core/models';

const LISTED = JSON.stringify({
  models: [
    { name: 'a', state: 'ready', licence: 'MIT', description: 'Small', download_bytes: 9e7 },
    {
      name: 'b',
      state: 'not fetched',
      licence: 'MIT',
      description: 'Large',
      download_bytes: 1.2e9,
    },
  ],
});

test('models are told with their state, and what fetching them would cost', () => {
  const rows = modelRows(LISTED, 'b');
  assert.deepEqual(
    rows.map(({ label, description, name }) => [label, description, name]),
    [
      ['a', 'ready, MIT', 'a'],
      ['$(check) b', 'not fetched, 1200 MB, MIT', 'b'],
    ],
  );
});

test('what is no list of models is an error', () => {
  assert.throws(() => modelRows('Traceback', undefined), SyntaxError);
});

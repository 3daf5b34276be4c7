import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explicitSettings, serverKeys, type Layers } from '../src/core/settings';

const KEYS = ['model', 'max_tokens', 'prose', 'exclude', 'deadline_ms.automatic'];

function told(layers: Partial<Record<string, Partial<Layers>>>): Record<string, unknown> {
  return explicitSettings(KEYS, (key) => ({
    user: undefined,
    workspace: undefined,
    ...layers[key],
  }));
}

test('only what somebody has set is told', () => {
  assert.deepEqual(told({}), {});
  assert.deepEqual(told({ prose: { user: false }, 'deadline_ms.automatic': { user: 900 } }), {
    prose: false,
    'deadline_ms.automatic': 900,
  });
});

test('a workspace goes before the user', () => {
  assert.deepEqual(told({ max_tokens: { user: 32, workspace: 16 } }), { max_tokens: 16 });
});

test('a workspace adds to what is excluded and takes nothing away', () => {
  const exclude = { user: ['*.key', '*.pem'], workspace: ['*.pem', 'gen/**'] };
  assert.deepEqual(told({ exclude }), { exclude: ['*.key', '*.pem', 'gen/**'] });
  assert.deepEqual(told({ exclude: { user: ['*.key'], workspace: [] } }), { exclude: ['*.key'] });
});

test("the extension's own settings are none of the server's", () => {
  const names = ['server.command', 'server.python', 'trace.server', ...KEYS];
  const contributed = names.map((name) => `tabahead.${name}`);
  assert.deepEqual(serverKeys(contributed), KEYS);
});

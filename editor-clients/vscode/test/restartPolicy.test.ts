import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DELAYS_MS, MEMORY_MS, RestartPolicy } from '../src/core/restartPolicy';

function policyAt(start: number): { policy: RestartPolicy; wait: (ms: number) => void } {
  let now = start;
  const policy = new RestartPolicy(() => now);
  return { policy, wait: (ms) => (now += ms) };
}

test('each failure soon after another waits longer, and the last one is the end', () => {
  const { policy, wait } = policyAt(1000);
  const delays = DELAYS_MS.map(() => {
    wait(100);
    return policy.failed();
  });
  assert.deepEqual(delays, DELAYS_MS);
  assert.deepEqual(
    [...DELAYS_MS].sort((a, b) => a - b),
    DELAYS_MS,
  );
  assert.equal(policy.failed(), undefined);
});

test('a server that fails now and then is always started again, and soon', () => {
  const { policy, wait } = policyAt(0);
  for (let i = 0; i < 20; i++) {
    wait(MEMORY_MS);
    assert.equal(policy.failed(), DELAYS_MS[0]);
  }
});

test('after giving up, a start that the user asks for begins from the first delay', () => {
  const { policy } = policyAt(0);
  while (policy.failed() !== undefined);
  policy.reset();
  assert.equal(policy.failed(), DELAYS_MS[0]);
});

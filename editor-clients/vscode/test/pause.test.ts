import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { Pause, PAUSE_MS } from '../src/core/pause';

test('a pause ends by itself, begins anew when asked again, and can be ended', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  const heard: boolean[] = [];
  const pause = new Pause((isOn) => heard.push(isOn));
  pause.begin();
  mock.timers.tick(PAUSE_MS - 1);
  pause.begin();
  mock.timers.tick(PAUSE_MS - 1);
  assert.deepEqual([pause.isOn, heard], [true, [true, true]]);
  mock.timers.tick(1);
  assert.deepEqual([pause.isOn, heard], [false, [true, true, false]]);
  pause.begin();
  pause.end();
  mock.timers.tick(2 * PAUSE_MS);
  assert.deepEqual(heard, [true, true, false, true, false]);
  pause.begin();
  pause.dispose();
  mock.timers.tick(2 * PAUSE_MS);
  assert.equal(heard.length, 6);
  mock.timers.reset();
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { safeEnvironment } from '../src/core/environment';

const FOLDERS = ['/code/project'];

test('entries of PYTHONPATH that a workspace could fill are left out', () => {
  const searched = ':lib:/code/project:/code/project/src:/opt/lib:/code/projects';
  const env = safeEnvironment({ PYTHONPATH: searched, HOME: '/home/me' }, FOLDERS, 'linux');
  assert.deepEqual(env, { PYTHONPATH: '/opt/lib:/code/projects', HOME: '/home/me' });
});

test('no program of a workspace is found either', () => {
  const env = safeEnvironment({ PATH: '/code/project/.venv/bin:bin::/usr/bin' }, FOLDERS, 'linux');
  assert.deepEqual(env, { PATH: '/usr/bin' });
  const windows = safeEnvironment({ Path: 'C:\\work\\bin;C:\\Python' }, ['C:\\work'], 'win32');
  assert.deepEqual(windows, { Path: 'C:\\Python' });
});

test('a PYTHONPATH of which nothing is left is absent, since an empty one means the current folder', () => {
  assert.deepEqual(safeEnvironment({ PYTHONPATH: '.' }, FOLDERS, 'linux'), {});
  assert.deepEqual(safeEnvironment({ PYTHONPATH: '' }, FOLDERS, 'linux'), {});
});

test('Windows compares folders whatever their case', () => {
  const env = safeEnvironment({ PYTHONPATH: 'C:\\Work\\lib;C:\\Other' }, ['c:\\work'], 'win32');
  assert.deepEqual(env, { PYTHONPATH: 'C:\\Other' });
});

import assert from 'node:assert/strict';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { InstallError } from '../src/core/install';
import { sourceOf } from '../src/core/source';

const WHEEL = 'tabahead-0.1.0-py3-none-any.whl';

/** A folder with the wheel, as the extension has one. */
async function shippedIn(t: TestContext, content = 'wheel'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tabahead of ;#1 '));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, WHEEL), content);
  return folder;
}

test('without a setting it is the wheel of the extension, and no index is asked for it', async (t) => {
  const shipped = await shippedIn(t);
  const { requirement } = await sourceOf(' ', shipped);
  const [name, url = ''] = requirement.split(' @ ');
  assert.equal(name, 'tabahead[cpu,syntax]');
  assert.equal(fileURLToPath(url), join(shipped, WHEEL));
  assert.doesNotMatch(url, /[ ;#]/);
});

test('its bare name means the same wheel, with the extras that are asked for', async (t) => {
  const shipped = await shippedIn(t);
  for (const setting of ['tabahead[cuda, syntax]', 'tabahead', 'Tabahead [cpu]']) {
    const { requirement } = await sourceOf(` ${setting} `, shipped);
    assert.ok(requirement.startsWith(`${setting} @ file:///`), requirement);
  }
});

test('any other requirement is given to pip as it is, and tells itself from others', async (t) => {
  const shipped = await shippedIn(t);
  for (const setting of ['/code/tabahead[cuda,syntax]', 'tabahead==1', 'tabahead-fork']) {
    const { requirement, mark } = await sourceOf(`${setting} `, shipped);
    assert.deepEqual([requirement, mark], [setting, setting]);
  }
});

test('the mark goes by what is in the wheel and by the extras, not by where it lies', async (t) => {
  const shipped = await shippedIn(t);
  const { mark } = await sourceOf('', shipped);
  const moved = `${shipped} moved`;
  await rename(shipped, moved);
  t.after(() => rm(moved, { recursive: true }));
  assert.equal((await sourceOf('', moved)).mark, mark);
  assert.notEqual((await sourceOf('tabahead[cuda,syntax]', moved)).mark, mark);
  assert.notEqual((await sourceOf('', await shippedIn(t, 'another'))).mark, mark);
});

test('an extension that has come without a wheel says so', async (t) => {
  const shipped = await shippedIn(t);
  await rm(join(shipped, WHEEL));
  for (const folder of [shipped, join(shipped, 'absent')]) {
    await assert.rejects(sourceOf('', folder), (error: Error) => {
      assert.ok(error instanceof InstallError);
      assert.match(error.message, /no wheel in .*tabahead\.server\.package/);
      return true;
    });
  }
});

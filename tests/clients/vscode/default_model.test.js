// The default model in VS Code: that it completes at all, and how long a user waits for it after the
// window has opened. What it writes is not asserted, times are printed only.

import fs from 'node:fs';
import path from 'node:path';
import { after, before } from 'node:test';

import { CodeServer } from './code_server.js';
import { eventually } from './eventually.js';
import { PYTHON, ROOT } from './places.js';
import { scenario, suite } from './scenario.js';

const SAMPLE = path.join(ROOT, 'tests/samples/shopping.py');

/** A class whose constructor sets what `clear` is about to set again: the model is sure enough. */
const CLASS = fs.readFileSync(SAMPLE, 'utf8').split('    def total(self)')[0];
const TEXT = `${CLASS}    def clear(self):\n        self.prices`;

/** Little beside the text, since the picture that is made here stands in the README. */
const PLAIN = {
  'editor.minimap.enabled': false,
  'editor.stickyScroll.enabled': false,
  'workbench.activityBar.location': 'hidden',
  'workbench.layoutControl.enabled': false,
  'window.commandCenter': false,
};

suite('the default model', () => {
  let code, window;
  before(async () => {
    const machineSettings = { 'tabahead.server.python': PYTHON };
    code = await CodeServer.start('default_model', { machineSettings, settings: PLAIN });
    code.useModels();
    // Warm: its file is in memory, and what its passes cost here is known.
    await code.tabahead('complete', `${SAMPLE}:22:22`);
    window = await code.open({ width: 800, height: 440 });
    await window.press('Control+B'); // no side bar
  });
  after(() => code?.stop());
  const check = (title, body) => scenario(title, () => window, body);

  async function start(name) {
    const lines = TEXT.split('\n');
    await window.edit(code.write(name, TEXT), lines.length, lines.at(-1).length + 1);
  }

  check('it is ready a while after the window has opened', async (test) => {
    await start('asked.py');
    await window.ready(/smollm2-135m/);
    const ready = Date.now();
    await window.type(' =');
    await window.press('Alt+\\');
    await window.expectGhost(/\S/);
    const shown = Date.now();
    const seconds = (end) => ((end - code.activated()) / 1000).toFixed(1);
    test.diagnostic(`from the start of the extension to a ready server: ${seconds(ready)} s`);
    test.diagnostic(`from the start of the extension to the first ghost text: ${seconds(shown)} s`);
  });

  check('the next suggestion is another one, and the previous one the first again', async () => {
    await start('others.py');
    await window.type(' =');
    await window.press('Alt+\\');
    const first = await window.expectGhost(/\S/);
    await window.press('Alt+]');
    const isAnother = async () => ![null, first].includes(await window.ghost());
    await eventually(isAnother, true, 'another suggestion');
    await window.press('Alt+[');
    await window.expectGhost(first);
  });

  check('what it shows while typing is what Tab puts there', async () => {
    await start('basket.py');
    await window.type(' =');
    const ghost = await window.expectGhost(/\S/);
    await window.screenshot('default-model');
    await window.press('Tab');
    await window.expectSaved(`${TEXT} =${ghost}`);
  });
});

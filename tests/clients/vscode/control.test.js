// What surrounds the ghost text: state, commands, settings that change while the window is open, and a
// server that ends. All in one window, each test in a file of its own.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';

import { CodeServer } from './code_server.js';
import { eventually } from './eventually.js';
import { PYTHON } from './places.js';
import { scenario, suite } from './scenario.js';

const SCRIPT = [{ after: 'def ', text: 'total(items):' }];
const GHOST = 'total(items):';

suite('control', () => {
  let code, window;
  before(async () => {
    code = await CodeServer.start('control', { script: SCRIPT });
    window = await code.openReady();
  });
  after(() => code?.stop());
  const check = (title, body) => scenario(title, () => window, body);

  async function type(name) {
    await window.edit(code.write(name, ''), 1, 1);
    await window.type('def ');
  }

  check('the status bar tells model and time, and its menu what can be done', async () => {
    await type('state.py');
    await window.expectGhost(GHOST);
    await eventually(() => window.serverState(), /^tabahead: scripted:\S+\.json/);
    await eventually(() => window.statusText(), /tabahead \d+ ms/);
    const labels = await window.menu();
    assert.ok(labels.includes('Pause for ten minutes'), labels.join('; '));
    assert.ok(labels.includes('Why was nothing shown here?'), labels.join('; '));
    await window.screenshot('menu');
    await window.press('Escape');
  });

  check('a pause keeps everything silent until it is ended', async () => {
    await type('pause.py');
    await window.expectGhost(GHOST);
    await window.command('tabahead: Pause for Ten Minutes');
    await eventually(() => window.serverState(), /paused/i);
    await window.expectGhost(null);
    await window.expectReason(/paused/i);
    await window.command('tabahead: Resume');
    await window.expectGhostAgain(GHOST);
  });

  check('a file is left alone once it is turned off there, and no other', async () => {
    await type('off.py');
    await window.expectGhost(GHOST);
    await window.command('tabahead: Turn Off or On in This File');
    await window.expectReason(/turned completions off in this file/);
    await type('on.py');
    await window.expectGhost(GHOST);
    await window.show(code.path('off.py'));
    await window.command('tabahead: Turn Off or On in This File');
    await window.expectGhostAgain(GHOST);
  });

  check('a language that is switched off while the window is open is left alone', async () => {
    await type('language.py');
    await window.expectGhost(GHOST);
    await window.saveSettings({ ...code.settings, 'tabahead.languages_off': ['python'] });
    await window.expectReason(/python/i);
    await window.saveSettings(code.settings);
    await window.expectGhostAgain(GHOST);
  });

  check(
    'a file that may hold secrets and an ignored one are left alone, and it is told',
    async () => {
      code.write('.gitignore', 'ignored.py\n');
      for (const [name, reason] of Object.entries({ '.env': /secret/, 'ignored.py': /ignored/i })) {
        await type(name);
        await window.expectReason(reason);
      }
    },
  );

  check('what is accepted, whole or by the word, is counted by the server', async () => {
    await type('counted.py');
    await window.expectGhost(GHOST);
    await window.press('Tab');
    await window.type('\ndef ');
    await window.expectGhost(GHOST);
    await window.press('Control+ArrowRight');
    await window.expectSaved('def total(items):\n    def total');
    await code.restartServer(window); // which saves what it has counted when it ends
    await eventually(
      async () => {
        const { accepted, 'parts.word': words } = await code.statistics();
        return { accepted, words };
      },
      { accepted: 1, words: 1 },
    );
  });

  check('the statistics are a page in a tab', async () => {
    await window.command('tabahead: Show Statistics');
    await window.page.waitForSelector('.tab.active[aria-label*="statistics"]');
    const page = window.page.frameLocator('iframe.webview.ready').frameLocator('iframe');
    await page
      .getByText(/accepted/i)
      .first()
      .waitFor();
    await window.screenshot('statistics');
  });

  check('the palette, which takes suggestions away, offers nothing to do with one', async () => {
    await type('palette.py');
    await window.expectGhost(GHOST);
    const offered = await window.commands('tabahead: ');
    assert.ok(offered.includes('tabahead: Open Log'), offered.join('; '));
    const needing = /Accept|Next Suggestion|Previous Suggestion/;
    assert.deepEqual(
      offered.filter((title) => needing.test(title)),
      [],
    );
  });

  check('a program that never answers is not waited for once the setting is mended', async () => {
    code.setMachine({ 'tabahead.server.command': [PYTHON, '-c', 'import time; time.sleep(600)'] });
    await eventually(() => window.serverState(), /^tabahead: Starting\.$/);
    code.setMachine(code.scripted);
    await window.ready();
    await type('answers.py');
    await window.expectGhost(GHOST);
  });

  check('a server that is killed is started again and completes', async () => {
    await code.expectNewServer(window, (old) => process.kill(old, 'SIGKILL'));
    await type('killed.py');
    await window.expectGhost(GHOST);
  });

  check(
    'a server that does not stay up is given up with the reason, until that is mended',
    async () => {
      const command = [PYTHON, '-c', 'raise SystemExit("broken on purpose")'];
      code.setMachine({ 'tabahead.server.command': command });
      await window.expectNotification(/does not stay up.*broken on purpose/);
      await window.command('tabahead: Suggest Here');
      await window.expectNotification(/does not stay up.*broken on purpose/);
      await window.command('tabahead: Pause for Ten Minutes');
      await window.expectPaused(true);
      await window.command('tabahead: Resume');
      await window.expectPaused(false);
      code.setMachine(code.scripted);
      await window.ready();
      await type('mended.py');
      await window.expectGhost(GHOST);
    },
  );
});

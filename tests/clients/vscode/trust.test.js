// A workspace that nobody has vouched for, full of traps: nothing in it is run, and of its settings
// those alone are heeded that narrow.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before } from 'node:test';

import { CodeServer } from './code_server.js';
import { scenario, suite } from './scenario.js';

const SCRIPT = [{ after: 'def ', text: 'total(items):' }];
const GHOST = 'total(items):';
const TRUST = {
  'security.workspace.trust.enabled': true,
  'security.workspace.trust.startupPrompt': 'never',
};

/** What is run leaves this file. */
const MARK = 'was-run';

function setTraps(code) {
  const mark = code.path(MARK);
  const python = `open(${JSON.stringify(mark)}, "w").close()\n`;
  for (const name of ['json.py', 'lsp_server/__init__.py', 'sitecustomize.py']) {
    code.write(name, python);
  }
  const program = code.write('tabahead', `#!/bin/sh\ntouch ${mark}\n`);
  fs.chmodSync(program, 0o755);
  code.write('tabahead.toml', 'model = "no-such-model"\n');
  const command = ['/bin/sh', program];
  code.write('.vscode/settings.json', {
    'tabahead.server.command': command,
    'tabahead.server.python': program,
    'tabahead.model': 'no-such-model',
    'tabahead.languages_off': ['shellscript'],
  });
}

suite('a workspace without trust', () => {
  let code, window;
  before(async () => {
    code = await CodeServer.start('trust', { script: SCRIPT, settings: TRUST });
    setTraps(code);
    window = await code.openReady();
  });
  after(() => code?.stop());
  const check = (title, body) => scenario(title, () => window, body);

  const restricted = () => window.page.locator('.statusbar-item', { hasText: 'Restricted Mode' });

  check("the user's server completes there, and nothing of the workspace is run", async () => {
    await restricted().waitFor();
    await code.restartServer(window);
    await window.edit(code.write('plain.py', ''), 1, 1);
    await window.type('def ');
    await window.expectGhost(GHOST);
    assert.ok(!fs.existsSync(code.path(MARK)));
  });

  check('a setting of the workspace that does not narrow is ignored, and it is told', async () => {
    await window.expectNotification(/`model` in \S+tabahead.toml is ignored/);
  });

  check('a language that the workspace switches off is off', async () => {
    await window.edit(code.write('narrowed.sh', ''), 1, 1);
    await window.expectReason(/shellscript/);
  });

  check('with trust, too, neither its program nor its modules are run', async () => {
    await window.command('Workspaces: Manage Workspace Trust');
    await window.page.getByRole('button', { name: 'Trust', exact: true }).click();
    await restricted().waitFor({ state: 'detached' });
    await code.restartServer(window);
    await window.edit(code.write('trusted.py', ''), 1, 1);
    await window.type('def ');
    await window.expectGhostAgain(GHOST); // the extension may be starting the server once more
    assert.ok(!fs.existsSync(code.path(MARK)));
  });
});

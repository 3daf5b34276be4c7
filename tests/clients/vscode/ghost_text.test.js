// Ghost text as it is typed and accepted, with a script in the model's place so that each character
// of it can be expected. All in one window, each test in a file of its own.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';

import { CodeServer } from './code_server.js';
import { scenario, suite } from './scenario.js';

const BODY = 'total(items):\n    return sum(items)';
const SCRIPT = [
  { after: 'def ', text: BODY },
  { after: 'len(', text: 'items' },
  { after: 'max(', text: 'items))' },
  { after: 'return ', text: 'first + second' },
  { after: '\t\t', text: 'if done:\n\t\t\treturn\n\t\tstep()' },
  { after: 'items.append', text: '(item)' },
];

suite('ghost text', () => {
  let code, window;
  before(async () => {
    code = await CodeServer.start('ghost_text', { script: SCRIPT });
    window = await code.openReady();
  });
  after(() => code?.stop());
  const check = (title, body) => scenario(title, () => window, body);

  /** A new file with `text` and the cursor in place of `|`. */
  async function start(name, text) {
    const [left, right] = text.split('|');
    const lines = left.split('\n');
    await window.edit(code.write(name, left + right), lines.length, lines.at(-1).length + 1);
  }

  check('it appears while typing', async () => {
    await start('appears.py', 'import os\n\n|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.screenshot('ghost-text');
  });

  check('it stays while it is typed through and goes where another text is typed', async () => {
    await start('through.py', '|');
    await window.type('def ');
    await window.expectGhost(BODY);
    const seen = await window.ghostsDuring(() => window.type('total'));
    assert.ok(!seen.includes(null), `it flickered: ${JSON.stringify(seen)}`);
    await window.expectGhost(BODY.slice('total'.length));
    await window.type('s');
    await window.expectGhost(null);
  });

  check('Tab accepts all of it', async () => {
    await start('all.py', 'import os\n|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Tab');
    await window.expectGhost(null);
    await window.expectSaved(`import os\ndef ${BODY}`);
  });

  check('Escape dismisses it and leaves the text as typed', async () => {
    await start('dismissed.py', '|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Escape');
    await window.expectGhost(null);
    await window.expectSaved('def ');
  });

  check('words are accepted one at a time, and the rest stays', async () => {
    await start('word.py', '|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Control+ArrowRight');
    await window.expectGhost(BODY.slice('total'.length));
    await window.expectSaved('def total');
  });

  check('a line is accepted alone, and the rest stays', async () => {
    await start('line.py', '|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Alt+End');
    await window.expectGhost('    return sum(items)');
    await window.expectSaved('def total(items):\n');
  });

  check('between brackets only what is missing is shown, whoever closes them', async () => {
    for (const call of ['len', 'max']) {
      await start(`${call}.py`, `print(${call}|)`);
      await window.type('(');
      await window.expectGhost('items');
      await window.press('Tab');
      await window.expectSaved(`print(${call}(items))`);
    }
  });

  check('lines of a CRLF file end with CRLF when more are accepted', async () => {
    await start('crlf.py', 'import os\r\n\r\n|\r\n');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Tab');
    await window.expectSaved(`import os\r\n\r\ndef ${BODY.replace('\n', '\r\n')}\r\n`);
  });

  check('a file that is indented with tabs is completed with tabs', async () => {
    await start('tabs.py', 'class Job:\n\tdef run(self):\n|\t\t\n');
    await window.press('End');
    await window.press('Alt+\\');
    await window.expectGhost('if done:\n            return\n        step()');
    await window.press('Tab');
    const body = '\t\tif done:\n\t\t\treturn\n\t\tstep()\n';
    await window.expectSaved(`class Job:\n\tdef run(self):\n${body}`);
  });

  check('emoji left of the cursor move nothing', async () => {
    const emoji = '\u{1F600}\u{1F469}\u200D\u{1F469}\u200D\u{1F467}';
    await start('emoji.py', `log("${emoji}")\n|`);
    await window.page.keyboard.insertText(`log("${emoji}"); `);
    await window.type('return ');
    await window.expectGhost('first + second');
    await window.press('Tab');
    await window.expectSaved(`log("${emoji}")\nlog("${emoji}"); return first + second`);
  });

  check('it continues what the suggest widget has selected', async () => {
    await start('widget.py', 'items.append(1)\nitems|');
    await window.type('.app');
    await window.page.waitForSelector('.suggest-widget.visible .monaco-list-row.focused');
    await window.expectGhost('end(item)');
    await window.screenshot('suggest-widget');
    await window.press('Tab');
    await window.expectGhost('(item)');
    await window.press('Tab');
    await window.expectSaved('items.append(1)\nitems.append(item)');
  });

  check('one undo takes back what was accepted and nothing else', async () => {
    await start('undo.py', 'import os\n|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Tab');
    await window.expectSaved(`import os\ndef ${BODY}`);
    await window.press('Control+Z');
    await window.expectSaved('import os\ndef ');
  });

  check('each of two files is completed where its own cursor is', async () => {
    await start('one.py', '|');
    await window.type('def ');
    await window.expectGhost(BODY);
    await start('two.py', 'import os\nprint(|)');
    await window.expectGhost(null);
    await window.type('len(');
    await window.expectGhost('items');
    await window.press('Tab');
    await window.expectSaved('import os\nprint(len(items))');
    await window.show(code.path('one.py'));
    await window.press('Alt+\\');
    await window.expectGhost(BODY);
    await window.press('Tab');
    await window.expectSaved(`def ${BODY}`);
  });

  check('a cell of a notebook is completed', async () => {
    const cell = {
      cell_type: 'code',
      source: '',
      metadata: {},
      outputs: [],
      execution_count: null,
    };
    const metadata = { language_info: { name: 'python' } };
    const notebook = { cells: [cell], metadata, nbformat: 4, nbformat_minor: 5 };
    await window.openNotebook(code.write('notebook.ipynb', JSON.stringify(notebook)));
    await window.type('def ');
    await window.expectGhost(BODY);
    await window.press('Tab');
    await window.expectSaved(/def total\(items\):.*return sum\(items\)/s);
  });
});

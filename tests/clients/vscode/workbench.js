// One window of VS Code, as its user sees it and types into it.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { DEADLINE_MS, eventually } from './eventually.js';
import { SCREENSHOTS } from './places.js';

/** Milliseconds between keys: a quick typist. */
const KEY_MS = 40;

const POSITION = '#status\\.editor\\.selection';
const SERVER_STATE = '#tabahead\\.tabahead\\.status';

export class Workbench {
  /** `url` shows a workspace; `settingsFile` has its user's settings. */
  static async open(page, url, settingsFile) {
    const self = new Workbench(page);
    self.settingsFile = settingsFile;
    await page.addInitScript(`window.readGhost = ${readGhost}`);
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    await page.waitForSelector('.explorer-folders-view', { timeout: DEADLINE_MS });
    return self;
  }

  constructor(page) {
    this.page = page;
    page.setDefaultTimeout(DEADLINE_MS);
  }

  /** Show `file` with the cursor at line and column, both from 1. */
  async edit(file, line, column) {
    await this.#pick('Control+P', `${file}:${line}:${column}`, path.basename(file));
    await this.page.waitForSelector(`.tab.active[data-resource-name="${path.basename(file)}"]`);
    await eventually(() => this.position(), `Ln ${line}, Col ${column}`);
    this.file = file;
  }

  /** Show a notebook with the cursor in its first cell. */
  async openNotebook(file) {
    await this.#pick('Control+P', file, path.basename(file));
    await this.page.click('.notebookOverlay .cell .monaco-editor');
    this.file = file;
  }

  /** Go to the tab of a file that is open. */
  async show(file) {
    await this.page.click(`.tab[data-resource-name="${path.basename(file)}"]`);
    this.file = file;
  }

  /** Run a command from the palette. */
  async command(title) {
    await this.#pick('F1', title, title);
  }

  /** The commands that the palette offers for a text. */
  async commands(text) {
    await this.page.keyboard.press('F1');
    const box = this.page.locator('.quick-input-widget:visible');
    await box.locator('input[type=text]').first().fill(`>${text}`);
    const labels = box.locator('.label-name');
    await labels.filter({ hasText: text }).first().waitFor();
    const titles = await labels.allTextContents();
    await this.press('Escape');
    return titles.map((title) => title.trim());
  }

  async #pick(key, text, label) {
    await this.page.keyboard.press(key);
    const box = this.page.locator('.quick-input-widget:visible');
    await box
      .locator('input[type=text]')
      .first()
      .fill(key === 'F1' ? `>${text}` : text);
    await box.locator('.monaco-list-row.focused', { hasText: label }).waitFor();
    await this.page.keyboard.press('Enter');
    await box.waitFor({ state: 'hidden' });
  }

  /** Typed, brackets and quotes would be closed a second time. */
  async #paste(text) {
    await this.page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
    await this.press('Control+V');
  }

  type(text) {
    return this.page.keyboard.type(text, { delay: KEY_MS });
  }

  press(key) {
    return this.page.keyboard.press(key);
  }

  /** `Ln 1, Col 2`, as the status bar has it. */
  position() {
    return this.page.textContent(POSITION);
  }

  /** What the entry in the status bar says to screen readers: the server's own sentence. */
  serverState() {
    return this.page.getAttribute(SERVER_STATE, 'aria-label');
  }

  /** What the entry shows. */
  statusText() {
    return this.page.textContent(SERVER_STATE);
  }

  /** The entry has the sign of a pause, or not. */
  async expectPaused(isPaused) {
    const sign = this.page.locator(`${SERVER_STATE} .codicon-debug-pause`);
    await sign.waitFor({ state: isPaused ? 'visible' : 'detached' });
  }

  /** Click the entry; the labels of its menu. */
  async menu() {
    await this.page.click(SERVER_STATE);
    const labels = this.page.locator('.quick-input-widget:visible .label-name');
    await labels.first().waitFor();
    return (await labels.allTextContents()).map((label) => label.trim());
  }

  /** Make `settings` those of the user, in the editor of settings.json, and come back. */
  async saveSettings(settings) {
    const { file } = this;
    const tab = `.tab.active[data-resource-name="${path.basename(this.settingsFile)}"]`;
    await this.command('Preferences: Open User Settings (JSON)');
    await this.page.waitForSelector(tab);
    this.file = this.settingsFile;
    await eventually(() => this.press('Control+A').then(() => this.position()), /selected/);
    await this.#paste(JSON.stringify(settings));
    await this.page.waitForSelector(`${tab}.dirty`);
    await this.expectSaved(JSON.stringify(settings));
    await this.show(file);
  }

  /** The server serves: what is typed from now on is completed. */
  async ready(model = /scripted/) {
    await eventually(() => this.serverState(), model, 'the status bar');
  }

  /** The grey text that is shown, `null` where there is none; read behind a frame, drawn whole. */
  ghost() {
    return this.page.evaluate(async () => {
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      return window.readGhost();
    });
  }

  expectGhost(text) {
    return eventually(() => this.ghost(), text, 'ghost text');
  }

  /**
   * Type the blank before the cursor again until it is there: a setting takes a moment to arrive, and
   * at the same place in the same text the editor does not ask twice, not even by key.
   */
  async expectGhostAgain(text) {
    const ask = async () => {
      await this.press('Backspace');
      await this.type(' ');
      const isShown = () => window.readGhost() !== null;
      // An answer has a second. Whether it came in time is what is read next.
      await this.page.waitForFunction(isShown, null, { timeout: 1000 }).catch(() => undefined);
      return this.ghost();
    };
    return eventually(ask, text, 'ghost text');
  }

  /** Every different ghost text that is drawn while `body` runs, `null` for frames without. */
  async ghostsDuring(body) {
    await this.page.evaluate(() => {
      window.seen = [];
      const look = () => {
        const ghost = window.readGhost();
        if (window.seen.at(-1) !== ghost) window.seen.push(ghost);
      };
      const watch = () => {
        setTimeout(look); // once all of this frame is drawn
        window.watching = requestAnimationFrame(watch);
      };
      watch();
    });
    await body();
    return this.page.evaluate(() => {
      cancelAnimationFrame(window.watching);
      return window.seen;
    });
  }

  /** Save, and expect the file on disk to be exactly `text`, or to match where it is a pattern. */
  async expectSaved(text) {
    await this.press('Control+S');
    await eventually(() => fs.readFileSync(this.file, 'utf8'), text, 'the file on disk');
  }

  /** Wait for a notification that says this, and clear it away; its text. */
  async expectNotification(pattern) {
    const messages = this.page.locator('.notification-toast .notification-list-item-message');
    const read = async () => (await messages.allTextContents()).join('\n');
    const text = await eventually(read, pattern, 'notification');
    await this.command('Notifications: Clear All Notifications');
    await messages.first().waitFor({ state: 'detached' });
    return text;
  }

  /** Type on until the extension says that for this reason nothing was shown: an editor asks late. */
  async expectReason(pattern) {
    const ask = async () => {
      await this.type('\ndef ');
      await this.command('tabahead: Why Was Nothing Shown Here?');
      return this.expectNotification(/^tabahead: /m);
    };
    await eventually(ask, pattern, 'reason');
    assert.equal(await this.ghost(), null);
  }

  async screenshot(name) {
    fs.mkdirSync(SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(SCREENSHOTS, `vscode-${name}.png`) });
  }
}

/** In the page: the rest of the cursor's line is in the text, further lines are in a zone below. */
function readGhost() {
  const text = (nodes) => [...nodes].map((node) => node.textContent).join('');
  const first = text(document.querySelectorAll('[class*="ghost-text-decoration"]'));
  const below = [...document.querySelectorAll('.suggest-preview-text .view-line')];
  if (!first && below.length === 0) return null;
  return [first, ...below.map((line) => line.textContent)].join('\n').replaceAll('\u00a0', ' ');
}

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
  static async open(page, address, workspace) {
    const self = new Workbench(page);
    await page.goto(`${address}/?folder=${workspace}`, { waitUntil: 'domcontentloaded' });
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

  /** Go to the tab of a file that is open. */
  async show(file) {
    await this.page.click(`.tab[data-resource-name="${path.basename(file)}"]`);
    this.file = file;
  }

  /** Run a command from the palette. */
  async command(title) {
    await this.#pick('F1', title, title);
  }

  async #pick(key, text, label) {
    await this.page.keyboard.press(key);
    const box = this.page.locator('.quick-input-widget:visible');
    await box.locator('input[type=text]').first().fill(key === 'F1' ? `>${text}` : text);
    await box.locator('.monaco-list-row.focused', { hasText: label }).waitFor();
    await this.page.keyboard.press('Enter');
    await box.waitFor({ state: 'hidden' });
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

  /** The server serves: what is typed from now on is completed. */
  async ready() {
    await eventually(() => this.serverState(), /scripted/, 'the status bar');
  }

  /** The grey text that is shown, `null` where there is none. */
  ghost() {
    return this.page.evaluate(readGhost);
  }

  async expectGhost(text) {
    await eventually(() => this.ghost(), text, 'ghost text');
  }

  /** Every different ghost text that is drawn while `body` runs, `null` for moments without. */
  async ghostsDuring(body) {
    await this.page.evaluate((source) => {
      const read = new Function(`return (${source})()`);
      window.seen = [];
      const look = () => {
        const ghost = read();
        if (window.seen.at(-1) !== ghost) window.seen.push(ghost);
        window.watching = requestAnimationFrame(look);
      };
      look();
    }, readGhost.toString());
    await body();
    return this.page.evaluate(() => {
      cancelAnimationFrame(window.watching);
      return window.seen;
    });
  }

  /** Save, and expect the file on disk to be exactly `text`. */
  async expectSaved(text) {
    await this.press('Control+S');
    await eventually(() => fs.readFileSync(this.file, 'utf8'), text, 'the file on disk');
  }

  /** The texts of the notifications in view. */
  notifications() {
    return this.page.locator('.notification-list-item-message').allTextContents();
  }

  async expectNotification(pattern) {
    await eventually(async () => (await this.notifications()).join('\n'), pattern);
  }

  async screenshot(name) {
    fs.mkdirSync(SCREENSHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(SCREENSHOTS, `vscode-${name}.png`) });
  }

  close() {
    return this.page.context().close();
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

// One code-server: VS Code's workbench and extension host, with settings and counters of its own.

import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { CODE_SERVER, EXTENSIONS, PYTHON, chromium, emptyFolder, playwright } from './places.js';
import { Workbench } from './workbench.js';

const run = promisify(execFile);

const QUIET = {
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'extensions.ignoreRecommendations': true,
  'files.hotExit': 'off',
  'git.enabled': false,
};

// The flags that make Chromium run without a screen, a sandbox's privileges or the network.
const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export class CodeServer {
  /**
   * Start one whose user has `settings`, and a browser for it. `script`: what the model is to say.
   * `home`: TABAHEAD_HOME; one of its own by default, without models.
   */
  static async start(name, { script, settings = {}, home } = {}) {
    const self = new CodeServer(name, home);
    if (script) self.#write('script.json', script);
    await self.set({ ...QUIET, ...(script ? self.#scripted() : {}), ...settings });
    await self.#listen();
    self.browser = await playwright().chromium.launch({
      executablePath: chromium(),
      args: CHROMIUM_FLAGS,
    });
    return self;
  }

  constructor(name, home) {
    this.folder = emptyFolder(name);
    this.workspace = path.join(this.folder, 'workspace');
    this.home = home ?? path.join(this.folder, 'home');
    // A repository of its own: what ours ignores, out/ among it, is not completed.
    fs.mkdirSync(path.join(this.workspace, '.git'), { recursive: true });
    this.settings = {};
  }

  /** Change the user's settings, as somebody who edits settings.json. */
  async set(changes) {
    Object.assign(this.settings, changes);
    this.#write('user/User/settings.json', this.settings);
  }

  /** A file of the workspace; its path. */
  write(name, text) {
    return this.#write(path.join('workspace', name), text);
  }

  /** The path of a file of the workspace. */
  path(name) {
    return path.join(this.workspace, name);
  }

  /** A window on the workspace. */
  async open() {
    const context = await this.browser.newContext({ viewport: { width: 1100, height: 620 } });
    return Workbench.open(await context.newPage(), this.address, this.workspace);
  }

  /** The ids of the processes that serve completions here, oldest first. */
  async servers() {
    const { stdout } = await run('ps', ['-eo', 'pid=,args=']);
    const ours = stdout.split('\n').filter((line) => line.includes(`scripted:${this.#script()}`));
    return ours.map((line) => parseInt(line, 10));
  }

  /** What `tabahead stats` says of this code-server's completions. */
  async statistics() {
    const args = ['-P', '-m', 'lsp_server', 'stats', '--json'];
    const { stdout } = await run(PYTHON, args, { env: this.#environment() });
    return JSON.parse(stdout);
  }

  async stop() {
    await this.browser?.close();
    this.process.kill();
  }

  #script() {
    return path.join(this.folder, 'script.json');
  }

  #scripted() {
    const command = [PYTHON, '-P', '-m', 'lsp_server', '--stdio'];
    return { 'tabahead.server.command': [...command, '--model', `scripted:${this.#script()}`] };
  }

  #environment() {
    const own = { TABAHEAD_HOME: this.home };
    for (const kind of ['CONFIG', 'DATA', 'CACHE']) own[`XDG_${kind}_HOME`] = this.folder;
    return { ...process.env, ...own };
  }

  /** Port 0: the system chooses, and code-server says which. */
  #listen() {
    const args = [CODE_SERVER, '--auth', 'none', '--bind-addr', '127.0.0.1:0'];
    args.push('--user-data-dir', path.join(this.folder, 'user'), '--extensions-dir', EXTENSIONS);
    args.push('--disable-telemetry', '--disable-update-check', '--disable-getting-started-override');
    const log = fs.openSync(path.join(this.folder, 'code-server.log'), 'a');
    const stdio = ['ignore', 'pipe', log];
    this.process = spawn(process.execPath, args, { env: this.#environment(), stdio });
    this.process.stdout.on('data', (data) => fs.writeSync(log, data));
    return new Promise((resolve, reject) => {
      this.process.once('exit', (code) => reject(new Error(`code-server ended (${code})`)));
      createInterface(this.process.stdout).on('line', (line) => {
        const found = /listening on (http:\S+?)\/?$/.exec(line);
        if (found) this.address = found[1];
        if (found) resolve();
      });
    });
  }

  #write(name, content) {
    const file = path.join(this.folder, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
    return file;
  }
}

// One code-server: VS Code's workbench and extension host, with settings and counters of its own.

import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import { eventually } from './eventually.js';
import {
  CODE_SERVER,
  EXTENSIONS,
  PYTHON,
  cacheFolder,
  chromium,
  emptyFolder,
  playwright,
} from './places.js';
import { Workbench } from './workbench.js';

const run = promisify(execFile);

/** Settings of the machine, as those that name programs, count here only: the server is remote. */
const MACHINE_SETTINGS = 'user/Machine/settings.json';
const SETTINGS = 'user/User/settings.json';

const QUIET = {
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'extensions.ignoreRecommendations': true,
  'files.hotExit': 'off',
  'files.autoSave': 'off',
  'git.enabled': false,
  'remote.autoForwardPorts': false,
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
  /** Start one with these settings, and a browser for it. `script`: what the model is to say. */
  static async start(name, { script, settings = {}, machineSettings = {} }) {
    const self = new CodeServer(name);
    if (script) self.#write('script.json', script);
    self.settings = { ...QUIET, ...settings };
    self.#write(SETTINGS, self.settings);
    self.setMachine({ ...(script ? self.scripted : {}), ...machineSettings });
    await self.#listen();
    self.browser = await playwright().chromium.launch({
      executablePath: chromium(),
      args: CHROMIUM_FLAGS,
    });
    return self;
  }

  constructor(name) {
    this.folder = emptyFolder(name);
    this.workspace = path.join(this.folder, 'workspace');
    this.home = path.join(this.folder, 'home');
    // A repository of its own: what ours ignores, out/ among it, is not completed.
    fs.mkdirSync(path.join(this.workspace, '.git'), { recursive: true });
  }

  /** Make `settings` those of the machine, as somebody who edits the file. */
  setMachine(settings) {
    this.#write(MACHINE_SETTINGS, settings);
  }

  /** The machine's settings where the script is in the model's place. */
  get scripted() {
    const command = [PYTHON, '-P', '-m', 'lsp_server', '--stdio'];
    return { 'tabahead.server.command': [...command, '--model', `scripted:${this.#script()}`] };
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
  async open(viewport = { width: 1100, height: 620 }) {
    const permissions = ['clipboard-read', 'clipboard-write'];
    const context = await this.browser.newContext({ viewport, permissions });
    const url = `${this.address}/?folder=${this.workspace}`;
    return Workbench.open(await context.newPage(), url, path.join(this.folder, SETTINGS));
  }

  /**
   * A window in which typing is completed: the editor begins to listen some moments after its first
   * file is open. The script has to say something behind `def `.
   */
  async openReady() {
    const window = await this.open();
    await window.ready();
    await window.edit(this.write('first.py', ''), 1, 1);
    await window.type('def ');
    await window.expectGhostAgain(/./);
    return window;
  }

  /** `replace` is given the id of the server's process; wait until another one serves. */
  async expectNewServer(window, replace) {
    const [old] = await this.#servers();
    await replace(old);
    const others = async () => (await this.#servers()).filter((id) => id !== old).length;
    await eventually(others, 1, 'servers');
    await window.ready();
  }

  restartServer(window) {
    return this.expectNewServer(window, () => window.command('tabahead: Restart Server'));
  }

  async #servers() {
    const { stdout } = await run('ps', ['-eo', 'pid=,args=']);
    const ours = stdout.split('\n').filter((line) => line.includes(`scripted:${this.#script()}`));
    return ours.map((line) => parseInt(line, 10));
  }

  /** What `tabahead stats` says of this code-server's completions. */
  async statistics() {
    return JSON.parse(await this.tabahead('stats', '--json'));
  }

  /** What one of tabahead's commands prints here. */
  async tabahead(...args) {
    const env = this.#environment();
    return (await run(PYTHON, ['-P', '-m', 'lsp_server', ...args], { env })).stdout;
  }

  /** Use the models of the user, and what was measured of them; counters stay our own. */
  useModels() {
    fs.mkdirSync(this.home);
    fs.symlinkSync(cacheFolder(), path.join(this.home, 'cache'));
  }

  /** When the extension host began to start the extension in the first window, in ms. */
  activated() {
    const logs = path.join(this.folder, 'user/logs');
    const log = path.join(logs, fs.readdirSync(logs)[0], 'exthost1/remoteexthost.log');
    const line = /^(\S+ \S+) .*_doActivateExtension tabahead\.tabahead/m;
    return Date.parse(line.exec(fs.readFileSync(log, 'utf8'))[1]);
  }

  async stop() {
    await this.browser?.close();
    this.process.kill();
  }

  #script() {
    return path.join(this.folder, 'script.json');
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
    for (const what of ['telemetry', 'update-check', 'getting-started-override']) {
      args.push(`--disable-${what}`);
    }
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
    fs.writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    return file;
  }
}

// Builds the server's wheel from this checkout into server/, where the extension installs it from.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const SOURCES = ['pyproject.toml', 'README.md', 'LICENSE', 'lsp_server', 'models', 'export'];
const TARGET = join(import.meta.dirname, 'server');

const named = process.env.PYTHON || (process.platform === 'win32' ? 'python' : 'python3');
// npm has changed the folder: a path is meant from where it was called.
const python = /[\\/]/.test(named) ? resolve(process.env.INIT_CWD ?? '.', named) : named;

const NEEDED = 'name a Python 3.11 or later that has pip in the environment variable PYTHON';

function pip(args, stdio, otherwise) {
  const { error, status } = spawnSync(python, ['-m', 'pip', ...args], { stdio });
  if (error !== undefined || status !== 0) {
    const absent = `${python} does not start (${error?.code}); ${NEEDED}`;
    console.error(`The server's wheel was not built: ${error ? absent : otherwise}.`);
    process.exit(1);
  }
}

pip(['--version'], 'ignore', `${python} has no pip; ${NEEDED}`);
// A copy, since setuptools builds inside the sources and packs what former builds have left there.
const copy = mkdtempSync(join(tmpdir(), 'tabahead-'));
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
for (const name of SOURCES) {
  const filter = (path) => basename(path) !== '__pycache__';
  cpSync(join(ROOT, name), join(copy, name), { recursive: true, filter });
}
rmSync(TARGET, { recursive: true, force: true });
const wheel = ['wheel', '--quiet', '--disable-pip-version-check', '--no-deps'];
pip([...wheel, '--wheel-dir', TARGET, copy], 'inherit', 'what pip complains of stands above');

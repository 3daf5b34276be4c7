/**
 * Makes an environment of Python with the server in it; whole, or not there at all. One that is there
 * already stays where another cannot be made. Two windows never make it at once.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Program } from './findServer';
import { alone } from './lock';
import { pathOf, type Platform } from './paths';
import type { Run, RunOptions } from './run';
import type { Source } from './source';

export const LEAST_PYTHON = [3, 11] as const;

/** A sentence that says what to do. */
export class InstallError extends Error {}

export class InstallCancelled extends Error {}

export interface Place {
  /** A folder of its own; whatever it has is replaced. */
  readonly folder: string;
  readonly platform: Platform;
}

export interface Plan extends Place {
  readonly source: Source;
  readonly options: RunOptions & { readonly signal: AbortSignal };
  /** Hears what is being done. */
  readonly report: (step: string) => void;
}

/** Written last: without it the folder is what an interrupted installation left. */
const MARK = 'complete';

/** Python of the environment, undefined where that is absent or not complete. */
export function installedPython({ folder, platform }: Place): string | undefined {
  const python = pythonOf({ folder, platform });
  const isComplete = existsSync(join(folder, MARK)) && existsSync(python);
  return isComplete ? python : undefined;
}

/** Raises InstallError and InstallCancelled; the path of the environment's Python. */
export async function install(plan: Plan, run: Run): Promise<string> {
  const { folder, report, source } = plan;
  const { signal } = plan.options;
  await mkdir(dirname(folder), { recursive: true });
  const onWait = (): void => {
    report('waiting for another window that installs it');
  };
  try {
    return await alone({ file: `${folder}.lock`, signal, onWait }, async (hasWaited) => {
      const python =
        hasWaited && (await isMadeOf(plan, source)) ? installedPython(plan) : undefined;
      return python ?? (await make(plan, run));
    });
  } catch (error) {
    throw signal.aborted ? new InstallCancelled() : error;
  }
}

/** Whether there is an environment, and installing it again would make the same. */
export async function isMadeOf(place: Place, source: Source): Promise<boolean> {
  if (installedPython(place) === undefined) {
    return false;
  }
  return (await readFile(join(place.folder, MARK), 'utf8')).trim() === source.mark;
}

async function make(plan: Plan, run: Run): Promise<string> {
  const { folder, report, source } = plan;
  const former = `${folder}.former`;
  if (installedPython(plan) !== undefined) {
    await move(folder, former);
  }
  await remove(folder);
  try {
    report('looking for Python');
    const base = await findPython(plan, run);
    report('creating an environment');
    await mkdir(folder, { recursive: true });
    await step({ ...base, args: [...base.args, '-I', '-m', 'venv', '--clear', folder] }, plan, run);
    const python = pythonOf(plan);
    report('installing the server');
    const pip = ['-I', '-m', 'pip', 'install', '--disable-pip-version-check', '--no-input'];
    await step({ file: python, args: [...pip, '--', source.requirement] }, plan, run, pipStep);
    report('trying the server');
    await step({ file: python, args: ['-I', '-m', 'lsp_server', '--version'] }, plan, run);
    await writeFile(join(folder, MARK), `${source.mark}\n`);
    await remove(former);
    return python;
  } catch (error) {
    await move(former, folder);
    throw error;
  }
}

async function remove(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
}

/** `from` comes in the place of `to`; where there is none, nothing is left there. */
async function move(from: string, to: string): Promise<void> {
  await remove(to);
  if (existsSync(from)) {
    await rename(from, to);
  }
}

async function findPython(plan: Plan, run: Run): Promise<Program> {
  const check = `import sys; sys.exit(sys.version_info < (${LEAST_PYTHON.join(', ')}))`;
  for (const program of candidates(plan.platform)) {
    const test = { ...program, args: [...program.args, '-I', '-c', check] };
    // One that cannot be started is one that is not installed.
    const outcome = await run(test, plan.options).catch(() => undefined);
    plan.options.signal.throwIfAborted();
    if (outcome?.code === 0) {
      return program;
    }
  }
  throw new InstallError(
    `No Python ${LEAST_PYTHON.join('.')} or later was found; install one from python.org or with` +
      ' your system, or name one that has tabahead in the setting tabahead.server.python.',
  );
}

function candidates(platform: Platform): Program[] {
  if (platform === 'win32') {
    return [
      { file: 'py', args: ['-3'] },
      { file: 'python', args: [] },
    ];
  }
  // The plain name first: it is what the user means by Python.
  const names = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];
  return names.map((file) => ({ file, args: [] }));
}

async function step(
  program: Program,
  { options, report }: Plan,
  run: Run,
  wording: (line: string) => string | undefined = () => undefined,
): Promise<void> {
  const onLine = (line: string): void => {
    options.onLine?.(line);
    const words = wording(line);
    if (words !== undefined) {
      report(words);
    }
  };
  const outcome = await run(program, { ...options, onLine });
  options.signal.throwIfAborted();
  if (outcome.code !== 0) {
    const lines = `${outcome.stdout}\n${outcome.stderr}`.split('\n').filter((line) => line.trim());
    const said = lines.find((line) => /^error\b/i.test(line)) ?? lines.at(-1) ?? 'no output';
    const why = said.replace(/^error:/i, '').trim();
    throw new InstallError(`The server could not be installed (${why}); see the log.`);
  }
}

/** `Collecting onnxruntime>=1.31 ...` -> `collecting onnxruntime` */
function pipStep(line: string): string | undefined {
  const found = /^\s*(Collecting|Downloading|Installing|Building)\s+([\w.-]+( collected)?)/.exec(
    line,
  );
  return found?.[1] === undefined ? undefined : `${found[1].toLowerCase()} ${found[2] ?? ''}`;
}

function pythonOf({ folder, platform }: Place): string {
  const path = pathOf(platform);
  return platform === 'win32'
    ? path.join(folder, 'Scripts', 'python.exe')
    : path.join(folder, 'bin', 'python');
}

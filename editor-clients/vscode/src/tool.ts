/** tabahead's commands besides the server: `stats`, `models`. */
import type { Program } from './core/findServer';
import { run } from './core/run';
import { surroundings } from './machine';

/** They take a second; a program that is none of ours may wait for ever. */
const MOST_MS = 30_000;

/** What it prints; raises Error with what it complains of. */
export async function runTool(
  tool: Program,
  args: readonly string[],
  storage: string,
): Promise<string> {
  const signal = AbortSignal.timeout(MOST_MS);
  const program = { file: tool.file, args: [...tool.args, ...args] };
  const outcome = await run(program, { ...surroundings(storage), signal });
  if (outcome.code !== 0) {
    const line = [program.file, ...program.args].join(' ');
    const how = signal.aborted ? 'it did not end' : `exit code ${outcome.code ?? 'unknown'}`;
    throw new Error(outcome.stderr.trim() || `${line} failed (${how}).`);
  }
  return outcome.stdout;
}

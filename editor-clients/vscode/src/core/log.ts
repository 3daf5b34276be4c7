/** Lines of the server's stderr, as its logging module writes them. */

export type Level = 'error' | 'warn' | 'info' | 'debug';

const LEVELS: Readonly<Record<string, Level>> = {
  CRITICAL: 'error',
  ERROR: 'error',
  WARNING: 'warn',
  INFO: 'info',
  DEBUG: 'debug',
};

/** Level and text; what has no level is an error: tracebacks, and what the interpreter says. */
export function parseLine(line: string): { level: Level; text: string } {
  const [word = '', ...rest] = line.split(' ');
  const level = LEVELS[word];
  return level === undefined ? { level: 'error', text: line } : { level, text: rest.join(' ') };
}

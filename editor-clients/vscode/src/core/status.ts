/** How things stand, as one entry of the status bar. */

/** What the server says of itself, and what only the extension knows. */
export type Kind =
  | 'busy'
  | 'normal'
  | 'warning'
  | 'inactive'
  | 'error'
  /** No server is installed. */
  | 'absent'
  /** The server is not running and will not be started by itself. */
  | 'stopped';

export interface Status {
  readonly kind: Kind;
  /** A sentence. */
  readonly message: string;
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
}

export interface View extends Status {
  /** Of the last answer that had text, as the editor saw it. */
  readonly lastMs?: number | undefined;
  readonly isPaused: boolean;
  /** The user has turned completions off in the file that is edited. */
  readonly isFileOff: boolean;
}

export interface Entry {
  readonly text: string;
  /** Markdown. */
  readonly tooltip: string;
  readonly background: 'warning' | 'error' | undefined;
}

const KINDS = new Set<string>(['busy', 'normal', 'warning', 'inactive', 'error']);

const ICONS: Readonly<Record<Kind, string>> = {
  busy: 'loading~spin',
  normal: 'zap',
  warning: 'warning',
  inactive: 'circle-slash',
  error: 'error',
  absent: 'cloud-download',
  stopped: 'error',
};

/** The parameters of `tabahead/status`; undefined where they are none. */
export function parseStatus(params: unknown): Status | undefined {
  if (typeof params !== 'object' || params === null) {
    return undefined;
  }
  const { kind, message, model, provider } = params as Record<string, unknown>;
  if (typeof kind !== 'string' || !KINDS.has(kind) || typeof message !== 'string') {
    return undefined;
  }
  return {
    kind: kind as Kind,
    message,
    model: typeof model === 'string' && model !== '' ? model : undefined,
    provider: typeof provider === 'string' && provider !== '' ? provider : undefined,
  };
}

export function entryOf(view: View): Entry {
  const isReady = view.kind === 'normal' || view.kind === 'warning';
  const time = isReady && view.lastMs !== undefined ? ` ${inWords(view.lastMs)}` : '';
  const facts = [
    view.isFileOff ? 'Off in this file.' : undefined,
    view.model === undefined ? undefined : `Model: ${inMarkdown(view.model)}`,
    view.provider === undefined ? undefined : `Provider: ${inMarkdown(view.provider)}`,
    view.lastMs === undefined ? undefined : `Last answer: ${inWords(view.lastMs)}`,
    'Click for the menu.',
  ];
  // Where all is well, the server's sentence says no more than the facts below it.
  const state = view.kind === 'normal' && view.model !== undefined ? 'Ready.' : view.message;
  return {
    text: `$(${iconOf(view)}) tabahead${time}`,
    tooltip: [`**tabahead**: ${inMarkdown(state)}`, ...facts]
      .filter((line) => line !== undefined)
      .join('\n\n'),
    background: backgroundOf(view.kind),
  };
}

function iconOf(view: View): string {
  if (view.isPaused) {
    return 'debug-pause';
  }
  return view.isFileOff && view.kind === 'normal' ? ICONS.inactive : ICONS[view.kind];
}

function backgroundOf(kind: Kind): Entry['background'] {
  if (kind === 'error' || kind === 'stopped') {
    return 'error';
  }
  return kind === 'warning' || kind === 'absent' ? 'warning' : undefined;
}

/** `43 ms`, `1.4 s` */
export function inWords(ms: number): string {
  return ms >= 995 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}

/** Paths and names as they are, whatever marks they hold. */
function inMarkdown(text: string): string {
  return text.replace(/[\\*_{}[\]()#+!|<>~$]/g, '\\$&');
}

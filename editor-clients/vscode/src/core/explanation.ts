/** Why was nothing shown here? */
import type { View } from './status';

/** What the editor knows of the place. */
export interface Place {
  /** A document is edited. */
  readonly isInDocument: boolean;
  /** It is of a kind that the server is told of. */
  readonly isServed: boolean;
  /** The editor shows ghost text at all. */
  readonly showsGhostText: boolean;
}

/** The reason where it lies on this side; undefined where the server must be asked. */
export function reasonHere(view: View, place: Place): string | undefined {
  if (!place.isInDocument) {
    return 'No file is edited; put the cursor into one first.';
  }
  if (!place.isServed) {
    return 'Only files on disk, new ones and notebooks are completed; this is none of them.';
  }
  if (!place.showsGhostText) {
    return 'The setting editor.inlineSuggest.enabled is off here: the editor shows no ghost text.';
  }
  if (view.kind === 'absent' || view.kind === 'stopped') {
    return view.message;
  }
  if (view.isPaused) {
    return 'You have paused completions; the command "tabahead: Resume" goes on.';
  }
  return view.isFileOff
    ? 'You have turned completions off in this file; "tabahead: Turn Off or On in This File" turns them on.'
    : undefined;
}

/** The answer of `tabahead/explain` as a sentence. */
export function reasonOf(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) {
    return 'Nothing has been asked in this file yet; type something, or run "tabahead: Suggest Here".';
  }
  const { reason, message } = answer as Record<string, unknown>;
  if (typeof message === 'string' && message !== '') {
    return typeof reason === 'string' ? `${message} (${reason})` : message;
  }
  return typeof reason === 'string'
    ? `The last answer had no text: ${reason}.`
    : 'The last answer had text; it goes when the cursor leaves its place.';
}

/** The answer of `tabahead/explain` as a sentence. */

export function explanationOf(answer: unknown): string {
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

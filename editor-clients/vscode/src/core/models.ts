/** The answer of `tabahead models list --json`, as rows to choose from. */

export interface ModelRow {
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  /** What the setting `model` gets. */
  readonly name: string;
}

interface Listed {
  readonly name: string;
  readonly state: string;
  readonly licence: string;
  readonly description: string;
  readonly download_bytes: number;
}

/** Raises Error where the text is not what the tool prints. */
export function modelRows(text: string, current: string | undefined): ModelRow[] {
  const { models } = JSON.parse(text) as { models: Listed[] };
  return models.map(({ name, state, licence, description, download_bytes: bytes }) => ({
    label: name === current ? `$(check) ${name}` : name,
    description: `${state === 'ready' ? state : `${state}, ${Math.round(bytes / 1e6)} MB`}, ${licence}`,
    detail: description,
    name,
  }));
}

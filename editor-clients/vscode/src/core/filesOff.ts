/** Files in which the user has turned completions off, kept with the workspace. */

/** The oldest are forgotten first. */
export const MAX_FILES = 1000;

export interface Store {
  read(): readonly string[];
  write(uris: readonly string[]): void;
}

export class FilesOff {
  private uris: ReadonlySet<string>;

  constructor(private readonly store: Store) {
    this.uris = new Set(store.read());
  }

  has(uri: string): boolean {
    return this.uris.has(uri);
  }

  /** Whether they are off there now. */
  toggle(uri: string): boolean {
    const others = [...this.uris].filter((other) => other !== uri);
    const isOff = others.length === this.uris.size;
    const now = isOff ? [...others, uri].slice(-MAX_FILES) : others;
    this.uris = new Set(now);
    this.store.write(now);
    return isOff;
  }
}

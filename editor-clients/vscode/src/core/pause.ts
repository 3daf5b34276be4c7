/** A pause that ends by itself. */

export const PAUSE_MS = 10 * 60_000;

export class Pause {
  private timer: NodeJS.Timeout | undefined;

  /** `changed` hears that it has begun (true) or ended. */
  constructor(private readonly changed: (isPaused: boolean) => void) {}

  get isOn(): boolean {
    return this.timer !== undefined;
  }

  /** From now on, also where it was on already. */
  begin(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.end();
    }, PAUSE_MS);
    this.changed(true);
  }

  end(): void {
    this.dispose();
    this.changed(false);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** The entry of the status bar, and the one place that knows how things stand. */
import * as vscode from 'vscode';
import { entryOf, type Status, type View } from './core/status';

export class StatusBar implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;
  private status: Status = { kind: 'busy', message: 'Starting.' };
  private lastMs: number | undefined;

  constructor(
    private readonly isPaused: () => boolean,
    private readonly isFileOff: () => boolean,
  ) {
    this.item = vscode.window.createStatusBarItem('status', vscode.StatusBarAlignment.Right, 100);
    this.item.name = 'tabahead';
    this.item.command = 'tabahead.showMenu';
    this.update();
    this.item.show();
  }

  get view(): View {
    const { status, lastMs } = this;
    return { ...status, lastMs, isPaused: this.isPaused(), isFileOff: this.isFileOff() };
  }

  set(status: Status): void {
    this.status = status;
    this.update();
  }

  /** An answer with text has come after so many milliseconds. */
  answered(ms: number): void {
    this.lastMs = ms;
    this.update();
  }

  update(): void {
    const { text, tooltip, background } = entryOf(this.view);
    this.item.text = text;
    this.item.tooltip = new vscode.MarkdownString(tooltip);
    this.item.backgroundColor =
      background && new vscode.ThemeColor(`statusBarItem.${background}Background`);
    this.item.accessibilityInformation = { label: `tabahead: ${this.status.message}` };
  }

  dispose(): void {
    this.item.dispose();
  }
}

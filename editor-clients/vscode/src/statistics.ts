/** The page of `tabahead stats --html`, shown in an editor tab. */
import { readFile } from 'node:fs/promises';
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Program } from './core/findServer';
import { inTheme } from './core/page';
import { runTool } from './tool';

export class Statistics implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  constructor(private readonly storage: string) {}

  /** Raises Error with what the tool says. */
  async show(tool: Program): Promise<void> {
    const file = path.join(this.storage, 'statistics.html');
    await runTool(tool, ['stats', '--html', file], this.storage);
    const { kind } = vscode.window.activeColorTheme;
    const isDark =
      kind === vscode.ColorThemeKind.Dark || kind === vscode.ColorThemeKind.HighContrast;
    const html = inTheme(await readFile(file, 'utf8'), isDark);
    this.panel ??= this.create();
    this.panel.webview.html = html;
    this.panel.reveal();
  }

  private create(): vscode.WebviewPanel {
    const title = 'tabahead: statistics';
    // Neither scripts nor files: the page needs none.
    const options = { enableScripts: false, localResourceRoots: [] };
    const active = vscode.ViewColumn.Active;
    const panel = vscode.window.createWebviewPanel('tabahead.statistics', title, active, options);
    panel.onDidDispose(() => (this.panel = undefined));
    return panel;
  }

  dispose(): void {
    this.panel?.dispose();
  }
}

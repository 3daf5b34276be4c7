/** The page of `tabahead stats --html`, shown in an editor tab. */
import { readFile } from 'node:fs/promises';
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Program } from './core/findServer';
import { run } from './core/run';
import { surroundings } from './machine';

export class Statistics implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  constructor(private readonly storage: string) {}

  /** Raises Error with what the tool says. */
  async show(tool: Program): Promise<void> {
    const file = path.join(this.storage, 'statistics.html');
    const program = { ...tool, args: [...tool.args, 'stats', '--html', file] };
    const outcome = await run(program, surroundings(this.storage));
    if (outcome.code !== 0) {
      throw new Error(outcome.stderr.trim());
    }
    const html = await readFile(file, 'utf8');
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

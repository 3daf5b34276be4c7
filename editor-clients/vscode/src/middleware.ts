/** What passes between editor and server, where the extension has a word in it. */
import { performance } from 'node:perf_hooks';
import * as vscode from 'vscode';
import type { Middleware } from 'vscode-languageclient/node';
import { explicitSettings, SECTION, serverKeys } from './core/settings';

export interface Hooks {
  /** Names of the settings that the extension contributes. */
  readonly contributed: readonly string[];
  readonly isOff: (document: vscode.TextDocument) => boolean;
  readonly onAnswer: (ms: number) => void;
  /** The server's command that ends a pause; it hears of it from whoever keeps the pause. */
  readonly onResume: () => void;
}

export function middlewareOf(hooks: Hooks): Middleware {
  const keys = serverKeys(hooks.contributed);
  return {
    provideInlineCompletionItems: async (document, position, context, token, next) => {
      if (hooks.isOff(document)) {
        return [];
      }
      const start = performance.now();
      const answer = await next(document, position, context, token);
      const items = Array.isArray(answer) ? answer : answer?.items;
      if (items !== undefined && items.length > 0) {
        hooks.onAnswer(performance.now() - start);
      }
      return answer;
    },
    executeCommand: (command, args, next): unknown => {
      if (command === 'tabahead.resume') {
        hooks.onResume();
        return undefined;
      }
      return next(command, args);
    },
    workspace: {
      // That something has changed is enough: the server asks for what it may know.
      didChangeConfiguration: (_sections, next) => next(undefined),
      configuration: ({ items }) =>
        items.map(({ section }) => (section === SECTION ? ownSettings(keys) : null)),
    },
  };
}

function ownSettings(keys: readonly string[]): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration(SECTION);
  return explicitSettings(keys, (key) => {
    const found = configuration.inspect(key);
    return { user: found?.globalValue, workspace: found?.workspaceValue };
  });
}

/** What the click on the status bar offers, most wanted first. */
import type { View } from './status';

export interface MenuItem {
  readonly label: string;
  readonly description?: string;
  readonly command: string;
}

export function menuOf(view: View): MenuItem[] {
  switch (view.kind) {
    case 'absent':
      return [INSTALL, LOG];
    case 'stopped':
      return [RESTART, INSTALL, LOG];
    default:
      return [
        view.isPaused ? RESUME : PAUSE,
        view.isFileOff ? FILE_ON : FILE_OFF,
        EXPLAIN,
        view.model === undefined ? MODEL : { ...MODEL, description: view.model },
        STATISTICS,
        LOG,
        RESTART,
      ];
  }
}

const RESUME = { label: '$(debug-start) Resume', command: 'tabahead.endPause' };
const PAUSE = {
  label: '$(debug-pause) Pause for ten minutes',
  command: 'tabahead.pauseTenMinutes',
};
const FILE_ON = { label: '$(check) Turn on in this file', command: 'tabahead.toggleFile' };
const FILE_OFF = { label: '$(circle-slash) Turn off in this file', command: 'tabahead.toggleFile' };
const EXPLAIN = { label: '$(question) Why was nothing shown here?', command: 'tabahead.explain' };
const MODEL = { label: '$(symbol-misc) Choose the model...', command: 'tabahead.chooseModel' };
const STATISTICS = { label: '$(graph) Show statistics', command: 'tabahead.showStatistics' };
const LOG = { label: '$(output) Open the log', command: 'tabahead.openLog' };
const RESTART = { label: '$(debug-restart) Restart the server', command: 'tabahead.restartServer' };
const INSTALL = {
  label: '$(cloud-download) Install the server',
  command: 'tabahead.installServer',
};

// The frame around each test: skipped where a tool is absent, with a picture where it fails.

import { describe, test } from 'node:test';

import { missingTool } from './places.js';

export function suite(title, body) {
  describe(title, { skip: missingTool() }, body);
}

/** `window` is asked for when the test runs. */
export function scenario(title, window, body) {
  test(title, async () => {
    try {
      await body();
    } catch (failure) {
      await window().screenshot(`failed-${title.replaceAll(/\W+/g, '-')}`);
      throw failure;
    }
  });
}

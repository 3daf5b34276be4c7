// The frame around each test: skipped where a tool is absent, with a picture where it fails.

import { describe, test } from 'node:test';

import { missingTool } from './places.js';

export function suite(title, body) {
  describe(title, { skip: missingTool() }, body);
}

/** `window` is asked for when the test runs. */
export function scenario(title, window, body) {
  test(title, async (context) => {
    try {
      await body(context);
    } catch (failure) {
      await picture(window(), title, failure);
      throw failure;
    }
  });
}

/** The failure counts, whether or not there can be a picture of it. */
async function picture(window, title, failure) {
  try {
    await window.screenshot(`failed-${title.replaceAll(/\W+/g, '-')}`);
  } catch (error) {
    failure.message += ` (no picture: ${error.message})`;
  }
}

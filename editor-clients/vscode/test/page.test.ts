import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inTheme } from '../src/core/page';

test('the page is dark in a dark theme, whatever the system is', () => {
  const html = '<style>p{} @media (prefers-color-scheme: dark) { p{} }</style>';
  assert.equal(inTheme(html, true), '<style>p{} @media all { p{} }</style>');
  assert.equal(inTheme(html, false), '<style>p{} @media not all { p{} }</style>');
});

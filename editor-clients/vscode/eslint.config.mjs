import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist/', 'out/', '*.mjs'] },
  eslint.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 60],
      // Numbers and booleans read well in a template; objects do not.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
    },
  },
  {
    // The core knows nothing of the editor, so that its tests need none.
    files: ['src/core/**'],
    rules: { 'no-restricted-imports': ['error', 'vscode', 'vscode-languageclient/node'] },
  },
  {
    // A test's promise is awaited by the runner; a suite is as long as its cases.
    files: ['test/**'],
    rules: { '@typescript-eslint/no-floating-promises': 'off', 'max-lines-per-function': 'off' },
  },
);

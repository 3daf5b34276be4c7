// Bundles the extension into dist/, with the licences of the packages that end up in the bundle.
import { build } from 'esbuild';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';

const { metafile } = await build({
  entryPoints: ['src/extension.ts'],
  outfile: 'dist/extension.js',
  bundle: true,
  minify: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  external: ['vscode'],
  legalComments: 'none',
  metafile: true,
  logLevel: 'info',
});

/** `node_modules/a/node_modules/@b/c/lib/x.js` -> `node_modules/a/node_modules/@b/c` */
const packageOf = (file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];
const folders = [...new Set(Object.keys(metafile.inputs).map(packageOf))].filter(Boolean).sort();
const notices = folders.map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  if (file === undefined) {
    throw new Error(
      `${folder} has no licence file; see how ${name} (${license}) wants to be named.`,
    );
  }
  return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, 'utf8').trim()}\n`;
});
mkdirSync('dist', { recursive: true });
writeFileSync('dist/THIRD_PARTY_NOTICES.txt', notices.join(`\n${'-'.repeat(72)}\n\n`));

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';

import { VERSION } from '../../config/version.ts';
import { OWN_NAME } from '../../runtime/handlers/load-handlers.ts';
import { DEPLOY, readDeployFile } from '../deploy-manifests.ts';

/** The example in `deploy/examples/handler`: tests run it, and the sandbox serves its kinds. */
const EXAMPLE = join(DEPLOY, 'examples', 'handler');
const COPIED = ['handlers/servers.ts', 'handlers/servers.test.ts', 'references-role.yaml', 'Dockerfile'];

/** The ranges that a release was tested with; a test compares them with package.json. */
const TOOLS = { '@types/node': '^24.19.2', typescript: '^6.0.3' };

const TSCONFIG = {
  compilerOptions: {
    target: 'ES2024',
    lib: ['ES2024'],
    module: 'NodeNext',
    types: ['node'],
    strict: true,
    // Node strips the types and compiles nothing.
    erasableSyntaxOnly: true,
    allowImportingTsExtensions: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
    noEmit: true,
  },
  include: ['handlers'],
};

/** @throws Error when a file exists already: nothing is written then */
export function init(folder: string): void {
  const root = resolve(folder);
  const files = projectFiles(basename(root));
  const existing = [...files.keys()].filter((path) => existsSync(join(root, path)));
  if (existing.length > 0) throw new Error(`${folder} already contains ${existing.join(', ')}`);
  for (const [path, text] of files) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text, { flag: 'wx' });
  }
  const place = relative(process.cwd(), root);
  console.log(`Created ${[...files.keys()].join(', ')}.\n\nNext:`);
  if (place !== '') console.log(`  cd ${place}`);
  console.log(`  npm install
  npm test           runs handlers/servers.test.ts
  npm run check      checks the types
  npm run sandbox    serves the handlers in an in-memory cluster`);
}

function projectFiles(name: string): ReadonlyMap<string, string> {
  return new Map([
    ['package.json', json(manifest(name))],
    ['tsconfig.json', json(TSCONFIG)],
    ['.gitignore', 'node_modules/\n'],
    ...COPIED.map((path): [string, string] => [path, readDeployFile(join(EXAMPLE, path))]),
  ]);
}

const manifest = (folder: string) => ({
  name: packageName(folder),
  private: true,
  type: 'module',
  engines: { node: '>=22.19' },
  scripts: { test: 'node --test', check: 'tsc', sandbox: 'gatehouse sandbox --handlers handlers' },
  dependencies: { [OWN_NAME]: `^${VERSION}` },
  devDependencies: TOOLS,
});

/** npm allows lower-case letters, digits and a few other characters. */
const packageName = (folder: string): string =>
  folder
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '') || 'handlers';

const json = (value: object): string => `${JSON.stringify(value, undefined, 2)}\n`;

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';

import { VERSION } from '../../config/version.ts';
import { OWN_NAME } from '../../runtime/handlers/load-handlers.ts';
import { DEPLOY, readDeployFile } from '../deploy-manifests.ts';

/** What each file of the project is in `deploy/examples`, where tests run it. */
const COPIED: Readonly<Record<string, string>> = {
  'server-crd.yaml': 'server-crd.yaml',
  'datacenter-crd.yaml': 'datacenter-crd.yaml',
  'user-crd.yaml': 'users/user-crd.yaml',
  'server-policy.yaml': 'server-policy.yaml',
  'objects/db.yaml': 'objects/db.yaml',
  'objects/muc1.yaml': 'objects/muc1.yaml',
  'tests/servers.yaml': 'tests/servers.yaml',
  'handlers/servers.ts': 'handler/handlers/servers.ts',
  'handlers/servers.test.ts': 'handler/handlers/servers.test.ts',
  'handlers/users.ts': 'users/controllers/users.ts',
  'handlers/users.test.ts': 'users/controllers/users.test.ts',
  'references-role.yaml': 'handler/references-role.yaml',
  Dockerfile: 'handler/Dockerfile',
};

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
  if (folder === '') throw new Error('the folder has no name: use . for this folder');
  if (existing.length > 0) throw new Error(`${folder} already contains ${existing.join(', ')}`);
  for (const [path, text] of files) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text, { flag: 'wx' });
  }
  const place = relative(process.cwd(), root);
  console.log(`Created ${[...files.keys()].join(', ')}.\n\nNext:`);
  if (place !== '') console.log(`  cd ${place}`);
  console.log(`  npm install
  npm test           runs the tests of the handlers and the suites of the policies
  npm run check      checks the types
  npm run sandbox    serves the handlers in an in-memory cluster, and reloads them after a change`);
}

function projectFiles(name: string): ReadonlyMap<string, string> {
  return new Map([
    ['package.json', json(manifest(name))],
    ['tsconfig.json', json(TSCONFIG)],
    ['.gitignore', 'node_modules/\n'],
    ...Object.entries(COPIED).map(([path, example]): [string, string] => [path, exampleText(example)]),
  ]);
}

/** Comments that name a folder of the examples name this project. */
const exampleText = (path: string): string =>
  readDeployFile(join(DEPLOY, 'examples', path))
    .replaceAll('deploy/examples/handler', '.')
    .replaceAll('deploy/examples/', '');

const manifest = (folder: string) => ({
  name: packageName(folder),
  private: true,
  type: 'module',
  engines: { node: '>=22.19' },
  scripts: {
    test: 'node --test && gatehouse review --suite tests',
    check: 'tsc',
    sandbox: 'gatehouse sandbox --no-tour --handlers handlers --watch',
  },
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

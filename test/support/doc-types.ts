/** Compiles the TypeScript of all pages at once, with the package as a dependency, as users have it. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { ROOT, scriptOf, type Page } from './doc-pages.ts';

const TSC = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');

const CONFIG = {
  extends: join(ROOT, 'tsconfig.json'),
  compilerOptions: {
    paths: {
      '@gatehouse-dev/gatehouse': [join(ROOT, 'src', 'index.ts')],
      '@gatehouse-dev/gatehouse/cel': [join(ROOT, 'src', 'cel.ts')],
      '@gatehouse-dev/gatehouse/testing': [join(ROOT, 'src', 'testing.ts')],
    },
    typeRoots: [join(ROOT, 'node_modules', '@types')],
    allowImportingTsExtensions: true,
  },
  include: ['pages/**/*'],
};

/** The compiler's errors, with page and file; empty if all pages compile. */
export async function typeErrors(pages: readonly Page[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-docs-types-'));
  try {
    const files = pages.flatMap(filesOf);
    if (files.length === 0) throw new Error('no page has a block of TypeScript');
    for (const { path, text } of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(CONFIG));
    return await new Promise((resolve) => {
      execFile(
        process.execPath,
        [TSC, '-p', folder, '--pretty', 'false'],
        { cwd: folder },
        (error, stdout) => {
          resolve(error === null ? '' : stdout);
        },
      );
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** `pages/docs/handlers.md/handlers/servers.ts`; a block without a file name is named after its line. */
const filesOf = (page: Page) =>
  scriptOf(page).actions.flatMap((action) =>
    action.kind === 'write' && action.file.endsWith('.ts')
      ? [{ path: join('pages', page.path, action.file), text: action.text }]
      : [],
  );

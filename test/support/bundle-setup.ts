/** Vitest's global setup: Gatehouse as one bundle. Loading its modules takes a process three times as much CPU. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'rolldown';

import { MAIN_OF_SOURCES, MAIN_VARIABLE } from './main-module.ts';

export async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bundle-'));
  await build({
    input: [MAIN_OF_SOURCES, join(SOURCES, 'index.ts')],
    platform: 'node',
    plugins: [keepPaths(folder)],
    output: { dir: folder, format: 'esm' },
    logLevel: 'silent',
  });
  process.env[MAIN_VARIABLE] = join(folder, 'main.js');
  process.env.NODE_COMPILE_CACHE = join(folder, 'cache');
  return () => rmSync(folder, { recursive: true, force: true });
}

const SOURCES = dirname(MAIN_OF_SOURCES);

/** Modules find the manifests from the folder of their source, and the SDK from their URL in the bundle. */
const keepPaths = (folder: string): Plugin => ({
  name: 'keep-paths',
  transform: (code, id) => {
    if (!id.startsWith(SOURCES) || !code.includes('import.meta.')) return undefined;
    const url = pathToFileURL(join(folder, relative(SOURCES, id).replace(/\.ts$/, '.js'))).href;
    return code
      .replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
      .replaceAll('import.meta.url', JSON.stringify(url));
  },
});

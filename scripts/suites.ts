/**
 * Which tests run where. Each file in test/e2e starts with a tag:
 *
 *     // suite: shared-plane, sandbox: yes
 *     // suite: own-plane, sandbox: no (it lacks admission plugins), slow, nightly
 *
 * - `shared-plane`: the control plane goes back to the pool after the file; see test/support/control-plane-pool.ts.
 *   `own-plane`: the file restarts the servers, or needs other flags.
 * - `sandbox`: `yes` in `npm test`, `long` only in `npm run test:sandbox` and every night, `no (reason)` never.
 * - `slow`: it takes about a minute or more, most of it waiting, so it starts before the others.
 * - `nightly`: `npm run test:nightly` runs a longer form of it.
 *
 * A file in test/integration that starts many processes has the tag `// suite: processes`: `npm test` leaves it out.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface SuiteTag {
  readonly plane: 'shared-plane' | 'own-plane';
  readonly sandbox: 'yes' | 'long' | 'no';
  readonly isSlow: boolean;
  readonly isNightly: boolean;
}

const TAG = /^\/\/ suite: (shared-plane|own-plane), sandbox: (yes|long|no \([^()]+\))(, slow)?(, nightly)?\n/;
const PROCESSES = '// suite: processes\n';

/** @throws Error when the first line is not a tag */
export function parseSuiteTag(path: string, source: string): SuiteTag {
  const [, plane, sandbox, slow, nightly] = TAG.exec(source) ?? [];
  if (plane === undefined || sandbox === undefined)
    throw new Error(
      `${path}: the first line must be a tag, for example "// suite: shared-plane, sandbox: yes"`,
    );
  return {
    plane: plane === 'own-plane' ? 'own-plane' : 'shared-plane',
    sandbox: sandbox === 'yes' || sandbox === 'long' ? sandbox : 'no',
    isSlow: slow !== undefined,
    isNightly: nightly !== undefined,
  };
}

export interface Suite {
  readonly path: string;
  readonly source: string;
}

export function readSuites(root: string, folder: 'e2e' | 'integration'): readonly Suite[] {
  return readdirSync(join(root, 'test', folder))
    .filter((name) => name.endsWith('.test.ts'))
    .sort()
    .map((name) => {
      const path = `test/${folder}/${name}`;
      return { path, source: readFileSync(join(root, path), 'utf8') };
    });
}

export function e2eSuites(root: string, accept: (tag: SuiteTag) => boolean): string[] {
  return readSuites(root, 'e2e')
    .filter(({ path, source }) => accept(parseSuiteTag(path, source)))
    .map(({ path }) => path);
}

export function processSuites(root: string): string[] {
  return readSuites(root, 'integration')
    .filter(({ source }) => source.startsWith(PROCESSES))
    .map(({ path }) => path);
}

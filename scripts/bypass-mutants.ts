/**
 * Opens holes of the past in a copy of the sources, one at a time, and checks that the bypass search finds each of
 * them within its CI budget. `-- --project e2e` uses the real API server instead of the sandbox; add `--oldest` if that is
 * the oldest supported one.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { MUTANTS, type Mutant } from '../test/bypass/mutants.ts';
import { copySources } from './mutated-copy.ts';

const ROOT = join(import.meta.dirname, '..');

const { values: flags } = parseArgs({
  options: { project: { type: 'string', default: 'sandbox' }, oldest: { type: 'boolean', default: false } },
});

function copyWith({ changes }: Mutant): string {
  const folder = copySources(ROOT);
  for (const { file, from, to } of changes) {
    const path = join(folder, file);
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace(from, () => to),
    );
  }
  return folder;
}

/** Runs the search in the folder. No report: it finds nothing. */
function searchIn(folder: string) {
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const args = [vitest, 'run', '--project', flags.project, 'test/e2e/bypass.test.ts'];
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1', GATEHOUSE_BYPASS_SEED: '1', GATEHOUSE_BYPASS_PATHS: '500' },
  });
  const output = stdout + stderr;
  return { report: /A stored object violates a policy[^]*?replay: .*/.exec(output)?.[0], output };
}

let missed = 0;
for (const mutant of MUTANTS) {
  if (mutant.until !== undefined && !flags.oldest) {
    console.log(`== ${mutant.name}\nskipped: API servers show it up to ${mutant.until} (--oldest)\n`);
    continue;
  }
  const folder = copyWith(mutant);
  try {
    const { report, output } = searchIn(folder);
    missed += report === undefined ? 1 : 0;
    console.log(`== ${mutant.name}\n${report ?? `NOT FOUND\n${output.slice(-3_000)}`}\n`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
process.exitCode = missed > 0 ? 1 : 0;

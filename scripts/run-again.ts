/**
 * Runs test files alone that failed while other suites shared the processors. Their bounds are about Gatehouse, and five
 * busy workers on two cores break them too. Both outputs are in the log. A file that fails alone fails the run.
 *
 * Usage: node scripts/run-again.ts REPORT…: the reports of Vitest, each named after its project (e2e.json).
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, relative } from 'node:path';

/** Load does not explain more failures than this. */
const MAX_FILES = 4;

interface Report {
  readonly success: boolean;
  readonly testResults: readonly { readonly name: string; readonly status: string }[];
}

const failed = new Map<string, readonly string[]>();
for (const path of process.argv.slice(2)) {
  const project = basename(path, '.json');
  const report = JSON.parse(readFileSync(path, 'utf8')) as Report; // written by Vitest
  const files = report.testResults.filter(({ status }) => status === 'failed').map(({ name }) => name);
  if (!report.success && files.length === 0) throw new Error(`${project} failed outside of its test files`);
  if (files.length > 0) failed.set(project, files);
}

const all = [...failed.values()].flat().map((path) => relative('.', path));
if (all.length > MAX_FILES) {
  console.error(`${all.length} files failed, which is more than load explains: ${all.join(' ')}`);
  process.exit(1);
}
for (const [project, files] of failed) {
  console.log(
    `== failed while other suites ran, so they run again alone: ${files.map((path) => relative('.', path)).join(' ')}`,
  );
  const options = ['vitest', 'run', '--project', project, '--maxWorkers', '1', ...files];
  if (spawnSync('npx', options, { stdio: 'inherit' }).status !== 0) process.exitCode = 1;
}

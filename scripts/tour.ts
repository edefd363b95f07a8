/**
 * Runs the steps of the README in a running sandbox, one by one: `node scripts/tour.ts <kubeconfig>`. Exits
 * with 1 at the first step whose output differs from the README.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

import { isAsSaid, runStep, writeProgram } from './run-step.ts';
import { stepsOf } from './tour-steps.ts';

const root = join(import.meta.dirname, '..');
const [kubeconfig] = process.argv.slice(2);
if (kubeconfig === undefined) {
  console.error('usage: node scripts/tour.ts <kubeconfig that npm start printed>');
  process.exit(2);
}

if (!hasKubectl()) {
  console.log('skipped the kubectl steps of the README: kubectl is not on the PATH');
  process.exit(0);
}

const steps = stepsOf(readFileSync(join(root, 'README.md'), 'utf8'));
if (steps.length === 0) throw new Error('README.md: no steps found');
const programs = mkdtempSync(join(tmpdir(), 'gatehouse-tour-'));
process.on('exit', () => {
  rmSync(programs, { recursive: true });
});
writeProgram(programs, join(root, 'src', 'main.ts'));
const path = [programs, process.env.PATH].join(delimiter);
const shell = { cwd: root, env: { ...process.env, PATH: path, KUBECONFIG: kubeconfig } };
for (const step of steps) {
  console.log(`$ ${step.command}`);
  const ran = await runStep(step, shell);
  process.stdout.write(ran.printed);
  if (!isAsSaid(step, ran)) {
    console.error(`\nThe README says that it prints:\n${step.expected}`);
    process.exit(1);
  }
}
console.log(`\n${steps.length} steps of the README work as printed`);

function hasKubectl(): boolean {
  try {
    execFileSync('kubectl', ['version', '--client'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * The kubectl steps of the README against a running sandbox, one by one: `node scripts/tour.ts <kubeconfig>`.
 * Exits 1 at the first step that does not print what the README says.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { printsAs, stepsOf } from './tour-steps.ts';

const root = join(import.meta.dirname, '..');
const [kubeconfig] = process.argv.slice(2);
if (kubeconfig === undefined) {
  console.error('usage: node scripts/tour.ts <kubeconfig that npm start printed>');
  process.exit(2);
}

if (!hasKubectl()) {
  console.log('skipped: the kubectl steps of the README, for there is no kubectl on the PATH');
  process.exit(0);
}

const steps = stepsOf(readFileSync(join(root, 'README.md'), 'utf8'));
if (steps.length === 0) throw new Error('the README has no steps');
for (const { command, expected } of steps) {
  console.log(`$ ${command}`);
  const { stdout, stderr } = spawnSync('bash', ['-c', command], {
    cwd: root,
    env: { ...process.env, KUBECONFIG: kubeconfig },
    encoding: 'utf8',
    timeout: 60_000,
  });
  const printed = `${stdout}${stderr}`;
  process.stdout.write(printed);
  if (!printsAs(expected, printed)) {
    console.error(`\nThe README says that it prints:\n${expected}`);
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

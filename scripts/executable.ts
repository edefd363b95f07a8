/**
 * Builds the single executable of the command line for this platform, and tries it: `npm run executable -- <folder>`.
 * The folder gets `kubectl-gatehouse` and an archive of it with the licences, for a release. Replace postject by
 * `node --build-sea` once the pinned Node has it (25.5).
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { build } from 'rolldown';

import { tryExecutable } from './executable/try-executable.ts';

const ROOT = join(import.meta.dirname, '..');

/** What the commands read of `deploy/`: the doctor, the sandbox with its tour, and `gatehouse init`. */
const ASSETS = [
  'base',
  'base/crds',
  'components/status-page',
  'examples',
  'examples/handler',
  'examples/handler/handlers',
  'examples/objects',
  'examples/tests',
  'examples/users',
  'examples/users/controllers',
];

/** As a process: its function ends the process that calls it. */
const POSTJECT = join(ROOT, 'node_modules', 'postject', 'dist', 'cli.js');

/** Node starts the injected program if it finds this text. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** @returns the path of the executable */
async function buildExecutable(folder: string): Promise<string> {
  const work = mkdtempSync(join(tmpdir(), 'gatehouse-executable-'));
  try {
    const main = await bundle(work);
    const blob = join(work, 'sea.blob');
    const config = join(work, 'sea.json');
    const settings = {
      main,
      output: blob,
      disableExperimentalSEAWarning: true,
      useCodeCache: true,
      assets: assets(),
    };
    writeFileSync(config, JSON.stringify(settings));
    execFileSync(process.execPath, ['--experimental-sea-config', config], { stdio: 'ignore' });

    const executable = join(folder, 'kubectl-gatehouse');
    copyFileSync(process.execPath, executable);
    chmodSync(executable, 0o755);
    const isMac = process.platform === 'darwin';
    // The signature of Node does not cover the program; macOS refuses a program with a broken one.
    if (isMac) execFileSync('codesign', ['--remove-signature', executable]);
    const segment = isMac ? ['--macho-segment-name', 'NODE_SEA'] : [];
    const injected = [executable, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE, ...segment];
    execFileSync(process.execPath, [POSTJECT, ...injected], { stdio: 'ignore' });
    if (isMac) execFileSync('codesign', ['--sign', '-', executable]);
    return executable;
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** One CommonJS module, the only format that Node 24 injects. src/main.ts has a top-level await, so it can't be the entry. */
async function bundle(work: string): Promise<string> {
  const entry = join(work, 'entry.ts');
  const program = JSON.stringify(join(ROOT, 'src', 'cli', 'program.ts'));
  writeFileSync(entry, `import { run } from ${program};\nvoid run(process.argv);\n`);
  const file = join(work, 'main.cjs');
  await build({
    input: entry,
    platform: 'node',
    output: { file, format: 'cjs', codeSplitting: false },
    logLevel: 'silent',
  });
  return file;
}

const assets = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ASSETS.flatMap((folder) =>
      readdirSync(join(ROOT, 'deploy', folder), { withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => join(ROOT, 'deploy', folder, name)),
    ).map((path) => [relative(ROOT, path), path]),
  );

const [given = 'dist-executable'] = process.argv.slice(2);
const folder = resolve(given);
mkdirSync(folder, { recursive: true });
const executable = await buildExecutable(folder);
await tryExecutable(executable);
copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
const archive = `kubectl-gatehouse-${process.platform}-${process.arch}.tar.gz`;
execFileSync('tar', ['-czf', archive, 'kubectl-gatehouse', 'LICENSE'], { cwd: folder });
console.log(join(folder, archive));

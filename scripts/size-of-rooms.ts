/** Prints lines and files by room, and checks the limits: `npm run check:size`. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { isTest, missedLimits, sizeOf, sizesByRoom, type SourceFile } from './room-sizes.ts';

const ROOT = join(import.meta.dirname, '..');

const listed = (...flags: readonly string[]): readonly string[] =>
  execFileSync('git', ['ls-files', ...flags, 'src', 'test', 'scripts', 'demo'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((path) => /\.(ts|js|go|sh|bash)$/.test(path));

const deleted = new Set(listed('--deleted'));
const files: readonly SourceFile[] = listed('--cached', '--others', '--exclude-standard', '--deduplicate')
  .filter((path) => !deleted.has(path))
  .map((path) => ({ path, lines: readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1 }));

const row = (name: string, { lines, count }: ReturnType<typeof sizeOf>) =>
  console.log(`${name.padEnd(24)} ${String(lines).padStart(7)} lines ${String(count).padStart(5)} files`);
for (const { room, ...size } of sizesByRoom(files.filter((file) => !isTest(file)))) row(room, size);
row('\nsrc', sizeOf(files.filter((file) => !isTest(file))));
row('tests, benchmarks, scripts', sizeOf(files.filter(isTest)));

const missed = missedLimits(files);
for (const limit of missed) console.error(`limit missed: ${limit}`);
process.exitCode = missed.length === 0 ? 0 : 1;

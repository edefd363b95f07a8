/**
 * Prints lines and files by room, and checks the limits: `npm run check:size`. The product is everything in src/ except
 * tests, the sandbox and CEL.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { measureProduct, missedLimits, sizesByRoom, type SourceFile } from './room-sizes.ts';

const ROOT = join(import.meta.dirname, '..');

const paths = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate', 'src'],
  {
    cwd: ROOT,
    encoding: 'utf8',
  },
).split('\n');
const deleted = new Set(
  execFileSync('git', ['ls-files', '--deleted', 'src'], { cwd: ROOT, encoding: 'utf8' }).split('\n'),
);
const files: readonly SourceFile[] = paths
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !deleted.has(path))
  .map((path) => ({ path, lines: readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1 }));

for (const { room, lines, count } of sizesByRoom(files))
  console.log(`${room.padEnd(24)} ${String(lines).padStart(7)} lines ${String(count).padStart(5)} files`);

const product = measureProduct(files);
console.log(
  `\nproduct: ${product.lines} lines in ${product.count} files; median file ${product.median} lines, longest ${product.longest}`,
);
const missed = missedLimits(product);
for (const limit of missed) console.error(`limit missed: ${limit}`);
process.exitCode = missed.length === 0 ? 0 : 1;

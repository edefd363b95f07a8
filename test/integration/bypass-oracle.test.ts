/** Each hole of the bypass search can still be opened: scripts/bypass-mutants.ts opens it, and the search must find it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { MUTANTS } from '../bypass/mutants.ts';

test.each(MUTANTS.flatMap(({ name, changes }) => changes.map((change) => [name, change] as const)))(
  'the hole can still be opened: %s',
  (_name, { file, from }) => {
    const source = readFileSync(join(import.meta.dirname, '..', '..', file), 'utf8');
    expect(source.split(from)).toHaveLength(2);
  },
);

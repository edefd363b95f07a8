import { expect, test } from 'vitest';

import { programName } from './program.ts';

test.each([
  ['/usr/local/bin/kubectl-gatehouse', 'kubectl gatehouse'],
  ['/usr/local/bin/gatehouse', 'gatehouse'],
  ['/home/kubectl-gatehouse/src/main.ts', 'gatehouse'],
  [undefined, 'gatehouse'],
])('started as %s, the program is called %s', (script, name) => {
  expect(programName(script)).toBe(name);
});

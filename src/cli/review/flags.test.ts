import { expect, test } from 'vitest';

import { modeOf, userOf, type ReviewFlags } from './flags.ts';

const flags = (given: Partial<ReviewFlags>): ReviewFlags => ({ output: 'table', ...given });

test.each<[Partial<ReviewFlags>, string]>([
  [{ filename: ['f'] }, 'objects'],
  [{ filename: ['f'], policies: ['p'], old: ['o'], operation: 'UPDATE', user: 'ada' }, 'objects'],
  [{ policies: ['p'], crds: ['c'], handlers: 'h' }, 'policies'],
  [{ suite: ['s'], showPatch: true }, 'suites'],
  [{ cluster: true }, 'cluster'],
  [{ cluster: true, policies: ['p'], kubeconfig: 'k', context: 'c' }, 'cluster'],
])('%j asks for %s', (given, mode) => {
  expect(modeOf(flags(given))).toBe(mode);
});

test.each<[Partial<ReviewFlags>, string]>([
  [{ crds: ['c'] }, 'nothing to review: use -f <objects>, -p <policies>, --suite <tests> or --cluster'],
  [{ suite: ['s'], filename: ['f'] }, '-f cannot be combined with --suite: set it in the suite'],
  [
    { filename: ['f'], allowHandlers: true },
    '--allow-handlers cannot be combined with the review of objects: name the handlers with --handlers',
  ],
  [{ cluster: true, filename: ['f'] }, '-f cannot be combined with --cluster: omit it'],
  [
    { filename: ['f'], kubeconfig: 'k' },
    '--kubeconfig cannot be combined with the review of objects: add --cluster, or omit --kubeconfig',
  ],
  [{ filename: ['f'], operation: 'UPDATE' }, 'an UPDATE needs the current objects: pass them with --old'],
  [
    { filename: ['f'], old: ['o'], operation: 'DELETE' },
    '--old is for an UPDATE only: omit it for a DELETE, or use --existing',
  ],
  [{ policies: ['p'], user: 'ada' }, '--user cannot be combined with policies alone: pass the objects'],
  [{ crds: ['-'], policies: ['-'] }, 'the standard input can be read only once: use - only once'],
  [{ filename: ['-'], policies: ['-'] }, 'the standard input can be read only once: use - only once'],
])('%j is refused: %s', (given, message) => {
  expect(() => modeOf(flags(given))).toThrow(message);
});

test.each([
  [undefined, 'user', ['system:authenticated']],
  ['ada', 'ada', ['system:authenticated']],
  ['system:anonymous', 'system:anonymous', ['system:unauthenticated']],
  [
    'system:serviceaccount:ci:deployer',
    'system:serviceaccount:ci:deployer',
    ['system:serviceaccounts', 'system:serviceaccounts:ci', 'system:authenticated'],
  ],
])('the user %s is %s in the groups %j', (name, username, groups) => {
  expect(userOf(name)).toMatchObject({ username, groups });
});

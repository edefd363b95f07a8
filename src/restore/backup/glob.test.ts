import { expect, test } from 'vitest';
import { compileGlob, createIncludes } from './glob.ts';

// The answers of github.com/gobwas/glob 0.2.3.
test.each<[glob: string, text: string, matches: boolean, separator?: string]>([
  ['*', 'deployments.apps', true],
  ['*', 'deployments.apps', false, '.'],
  ['**', 'deployments.apps', true, '.'],
  ['*.*', 'deployments.apps', true, '.'],
  ['deployments.*', 'deployments.apps', true, '.'],
  ['*.example.com', 'a.b.example.com', false, '.'],
  ['pods?v1', 'pods.v1', false, '.'],
  ['pods[.]v1', 'pods.v1', true, '.'],
  ['**-x', 'a.b-x', true],
  ['team-?', 'team-1', true],
  ['team-?', 'team-10', false],
  ['team-[ab]', 'team-b', true],
  ['team-[!ab]', 'team-b', false],
  ['team-[!ab]', 'team-c', true],
  ['team-[0-9]', 'team-7', true],
  ['team-[0-9]', 'team-x', false],
  ['{pods,secrets}', 'secrets', true],
  ['{pods,secrets}', 'pods,secrets', false],
  ['{a,b', 'b', true],
  ['a,b', 'a,b', true],
  ['a]', 'a]', true],
  [String.raw`a\*`, 'a*', true],
  [String.raw`a\*`, 'ab', false],
  ['a.c', 'abc', false],
])('the glob %s and %s: %s', (glob, text, matches, separator) => {
  expect(compileGlob(glob, separator).test(text)).toBe(matches);
});

test.each(['team-[', '[]', '[!]', '[z-a]', '[a-zA]', '[a-'])('%s is not a glob', (glob) => {
  expect(() => compileGlob(glob)).toThrow('is not a glob');
});

test('an invalid glob disables the globs after it in the alphabet', () => {
  const { selects } = createIncludes(['shop', 'a', 'c[']);
  expect(['a', 'shop'].map(selects)).toEqual([true, false]);
});

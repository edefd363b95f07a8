import { expect, test } from 'vitest';

import { printsAs, stepsIn, stepsOf } from './tour-steps.ts';

test('steps are the commands of console blocks with their output', () => {
  const markdown = [
    'text',
    '```sh',
    '$ no step',
    '```',
    '```console',
    '$ one',
    'said',
    '',
    'more',
    '$ two \\',
    '  goes on',
    '```',
    'text',
    '```console',
    '$ export FOUR=4',
    '$ three',
    '```',
  ].join('\n');
  expect(stepsOf(`${markdown}\n`)).toEqual([
    { command: 'one', expected: 'said\n\nmore' },
    { command: 'two \\\n  goes on', expected: '' },
    { command: 'three', expected: '' },
  ]);
});

test('a here-document belongs to its command', () => {
  const block = "$ cat - <<'EOF'\n$x\ntwo\nEOF\nprinted\n";
  expect(stepsIn(block)).toEqual([{ command: "cat - <<'EOF'\n$x\ntwo\nEOF", expected: 'printed' }]);
});

test.each([
  ['a line', 'a line\n', true],
  ['NAME  AGE\nweb   …', 'NAME    AGE\nweb     5s\n', true],
  ['a (b) [c]', 'a (b) [c]', true],
  ['…\nlast', 'first\nsecond\nlast\n', true],
  ['first\n…', 'first\nsecond\nlast\n', true],
  ['first', 'first\nsecond\n', false],
  ['a.b', 'axb', false],
  ['', 'something', false],
])('%j matches the output %j: %s', (expected, printed, same) => {
  expect(printsAs(expected, printed)).toBe(same);
});

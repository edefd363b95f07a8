import { expect, test } from 'vitest';

import { formatTable, type Row } from './table.ts';

const rows: readonly Row[] = [
  { cells: [{ text: 'a' }, { text: 'denied', colour: 'red' }], lines: ['first', 'second'] },
  { cells: [{ text: 'longer' }, { text: 'ok' }], lines: [] },
];

test('columns are as wide as what is in them, and further lines stand below the first', () => {
  expect(formatTable(['NAME', 'IS', 'WHY'], rows, false).split('\n')).toEqual([
    'NAME     IS       WHY',
    'a        denied   first',
    '                  second',
    'longer   ok',
  ]);
});

test('colours do not count as width', () => {
  const [, first] = formatTable(['NAME', 'IS', 'WHY'], rows, true).split('\n');
  expect(first).toBe('a        \u001b[31mdenied\u001b[39m   first');
});

test('what users wrote cannot steer the terminal', () => {
  const hostile: Row = { cells: [{ text: '\u001b[2Ja\u202e' }], lines: ['one\ntwo\u009b1m'] };
  expect(formatTable(['NAME', 'WHY'], [hostile], true)).toBe(
    'NAME     WHY\n\ufffd[2Ja\ufffd   one two\ufffd1m',
  );
});

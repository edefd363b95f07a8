import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { formatData, formatTable, type Row } from './output.ts';

const HOSTILE = 'a\u001b[2J\u0085b\u009b31m\u202ec\u007f\r\nd';

test.each(['json', 'yaml'] as const)(
  'text from users cannot control a terminal in %s, and is parsed unchanged',
  (format) => {
    const data = { items: [{ name: 'plain', message: HOSTILE, [HOSTILE]: 'two\nlines\n' }] };
    const text = formatData(data, format);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
    expect(format === 'json' ? JSON.parse(text) : parse(text)).toEqual(data);
  },
);

test('without control characters, YAML needs no quotes', () => {
  expect(formatData({ name: 'plain', message: 'two\nlines\n' }, 'yaml')).toBe(
    'name: plain\nmessage: |\n  two\n  lines\n',
  );
});

const rows: readonly Row[] = [
  { cells: [{ text: 'a' }, { text: 'denied', colour: 'red' }], lines: ['first', 'second'] },
  { cells: [{ text: 'longer' }, { text: 'ok' }], lines: [] },
];

test('columns fit their content, and further lines are below the first', () => {
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

test('text from users cannot control the terminal', () => {
  const hostile: Row = { cells: [{ text: '\u001b[2Ja\u202e' }], lines: ['one\ntwo\u009b1m'] };
  expect(formatTable(['NAME', 'WHY'], [hostile], true)).toBe(
    'NAME     WHY\n\ufffd[2Ja\ufffd   one two\ufffd1m',
  );
});

import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { formatData, formatTable, type Row, toYaml } from './output.ts';
import { jsonOfYaml, parseYamlDocuments } from '../review/yaml.ts';

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

test('without control characters, YAML is not quoted', () => {
  expect(formatData({ name: 'plain', message: 'two\nlines\n' }, 'yaml')).toBe(
    'name: plain\nmessage: |\n  two\n  lines\n',
  );
});

const rows: readonly Row[] = [
  { cells: ['a', { text: 'denied', tone: 'bad' }], lines: ['first', 'second'] },
  { cells: ['longer', 'ok'], lines: [] },
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
  const hostile: Row = { cells: ['\u001b[2Ja\u202e'], lines: ['one\ntwo\u009b1m'] };
  expect(formatTable(['NAME', 'WHY'], [hostile], true)).toBe(
    'NAME     WHY\n\ufffd[2Ja\ufffd   one two\ufffd1m',
  );
});

const AMBIGUOUS = 'Off on yes No y null ~ 1:30 0o17 017 1_000 2026-01-01 << =';

test.each(AMBIGUOUS.split(' '))('kubectl reads the text %s as text', (text) => {
  const value = { [text]: text, list: [text] };
  const [document] = parseYamlDocuments(toYaml(value)).documents;
  expect(jsonOfYaml(document?.node.toJS())).toEqual(value);
});

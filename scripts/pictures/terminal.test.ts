import { expect, test } from 'vitest';

import { drawTerminal } from './terminal.ts';

const textsOf = (svg: string): readonly string[] =>
  [...svg.matchAll(/<text class="(\w+)"[^>]*>(.*?)<\/text>/g)].map(
    ([, style = '', text = '']) => `${style}: ${text}`,
  );

test('the command, numbered headings and text have styles, and markup in the output is escaped', () => {
  expect(textsOf(drawTerminal('a tour', 'npm start', 'Ready\n\n1. One <b>\n   a & b\n'))).toEqual([
    'command: $ npm start',
    'text: Ready',
    'heading: 1. One &lt;b&gt;',
    'text:    a &amp; b',
  ]);
});

test('long lines are broken between words and stay indented; no word is lost', () => {
  const words = Array.from({ length: 60 }, (_, n) => `word${n}`);
  const rows = textsOf(drawTerminal('a', 'b', `   ${words.join(' ')}`)).slice(1);
  expect(rows.length).toBeGreaterThan(3);
  expect(rows.slice(1).every((row) => row.startsWith('text:      word'))).toBe(true);
  expect(rows.flatMap((row) => row.split(/ +/).slice(1))).toEqual(words);
});

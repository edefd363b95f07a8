import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { formatData } from './output.ts';

const HOSTILE = 'a\u001b[2J\u0085b\u009b31m\u202ec\u007f\r\nd';

test.each(['json', 'yaml'] as const)(
  'what users wrote cannot steer a terminal in %s, and is read as it was',
  (format) => {
    const data = { items: [{ name: 'plain', message: HOSTILE, [HOSTILE]: 'two\nlines\n' }] };
    const text = formatData(data, format);
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
    expect(format === 'json' ? JSON.parse(text) : parse(text)).toEqual(data);
  },
);

test('where there is nothing of the kind, YAML needs no quotes', () => {
  expect(formatData({ name: 'plain', message: 'two\nlines\n' }, 'yaml')).toBe(
    'name: plain\nmessage: |\n  two\n  lines\n',
  );
});

import { expect, test } from 'vitest';

import { partsOf, proseOf } from './markdown.ts';

const PAGE = `# Title
<!-- before: one -->
- item
   \`\`\`yaml fragment
   a:
     b: 1
   \`\`\`
<!-- before:
two
three
-->
<!-- a comment that is no note -->
\`\`\`\`text
\`\`\`sh
<!-- not run: part of the text -->
\`\`\`
\`\`\`\`
`;

test('blocks and notes are listed in order, with their line numbers', () => {
  expect(partsOf(PAGE)).toEqual([
    { kind: 'note', key: 'before', text: 'one', line: 2 },
    { kind: 'block', language: 'yaml', marks: ['fragment'], text: 'a:\n  b: 1\n', line: 4 },
    { kind: 'note', key: 'before', text: 'two\nthree', line: 8 },
    {
      kind: 'block',
      language: 'text',
      marks: [],
      text: '```sh\n<!-- not run: part of the text -->\n```\n',
      line: 13,
    },
  ]);
});

test('prose is the text outside of blocks', () => {
  expect(proseOf('a\n```sh\n# b\n```\nc\n')).toBe('a\n\nc\n');
});

test.each(['```sh\nls\n', '<!-- before: ls\n'])('an unclosed block or comment is an error: %j', (page) => {
  expect(() => partsOf(page)).toThrow('line 1');
});

import { expect, test } from 'vitest';

import { formatJunit, type JunitCase } from './junit.ts';

const passed: JunitCase = { name: 'a', className: 'c', output: [] };

test('text from users cannot break the XML', () => {
  const hostile = '<&>"\'\u0000\u0008\ud800\r\n]]>';
  const xml = formatJunit('review', [
    {
      name: hostile,
      cases: [{ ...passed, output: [hostile], failure: { message: hostile, details: hostile } }],
    },
  ]);
  const escaped = '&lt;&amp;&gt;&quot;&apos;\ufffd\ufffd\ufffd';
  expect(xml).toContain(`<testsuite name="${escaped}&#10;&#10;]]&gt;" tests="1"`);
  expect(xml).toContain(`<failure message="${escaped}&#10;&#10;]]&gt;">${escaped}\n\n]]&gt;</failure>`);
  expect(xml).toContain(`<system-out>${escaped}\n\n]]&gt;</system-out>`);
});

test('cases are counted by result, for each suite and in total', () => {
  const error: JunitCase = { ...passed, error: 'gone' };
  const skipped: JunitCase = { ...passed, skipped: 'not asked' };
  const xml = formatJunit('review', [
    { name: 'one', cases: [passed, error] },
    { name: 'two', cases: [skipped] },
  ]);
  expect(xml).toContain('<testsuites name="gatehouse review" tests="3" failures="0" errors="1" skipped="1">');
  expect(xml).toContain('<testsuite name="one" tests="2" failures="0" errors="1" skipped="0">');
  expect(xml).toContain('<testsuite name="two" tests="1" failures="0" errors="0" skipped="1">');
  expect(xml).toContain('<error message="gone"/>');
});

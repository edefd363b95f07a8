import { expect, test } from 'vitest';

import { html, trusted } from './html.ts';

test('inserted values are escaped, between tags and in attributes', () => {
  const evil = `"><script>alert('x')</script>&amp;`;
  expect(html`<p title="${evil}">${evil}</p>`.text).toBe(
    '<p title="&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;</p>',
  );
});

test('bidirectional and invisible characters are shown as escapes', () => {
  expect(html`${'a\u202eb\u200bc\u0000\nd'}`.text).toBe('a\\u202eb\\u200bc\\u0000\\u000ad');
});

test('nested HTML stays HTML; lists are joined; undefined gives empty text', () => {
  const items = ['<a>', 'b'].map((name) => html`<li>${name}</li>`);
  expect(
    html`<ul>
        ${items}
      </ul>
      ${undefined}${0}${trusted('<hr>')}`.text.replaceAll(/\n\s*/g, ''),
  ).toBe('<ul><li>&lt;a&gt;</li><li>b</li></ul>0<hr>');
});

test('a value of megabytes is truncated', () => {
  expect(html`${'x'.repeat(1_000_000)}`.text.length).toBeLessThan(5_000);
});

import { expect, test } from 'vitest';

import { html, trusted } from './html.ts';

test('what is put in is text, between tags and in attributes', () => {
  const evil = `"><script>alert('x')</script>&amp;`;
  expect(html`<p title="${evil}">${evil}</p>`.text).toBe(
    '<p title="&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;">' +
      '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;</p>',
  );
});

test('characters that turn the direction of text, or are not seen, are shown as escapes', () => {
  expect(html`${'a\u202eb\u200bc\u0000\nd'}`.text).toBe('a\\u202eb\\u200bc\\u0000\\u000ad');
});

test('HTML in HTML stays HTML; lists are put side by side; nothing is nothing', () => {
  const items = ['<a>', 'b'].map((name) => html`<li>${name}</li>`);
  expect(
    html`<ul>
        ${items}
      </ul>
      ${undefined}${0}${trusted('<hr>')}`.text.replaceAll(/\n\s*/g, ''),
  ).toBe('<ul><li>&lt;a&gt;</li><li>b</li></ul>0<hr>');
});

test('a value of megabytes is cut', () => {
  expect(html`${'x'.repeat(1_000_000)}`.text.length).toBeLessThan(5_000);
});

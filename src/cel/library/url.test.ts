import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

const parts = (text: string) =>
  ['getScheme', 'getHost', 'getHostname', 'getPort', 'getEscapedPath'].map((get) =>
    evaluate(`url(text).${get}()`, { text }),
  );

test.each([
  ['/path', ['', '', '', '', '/path']],
  ['https://example.com:80/', ['https', 'example.com:80', 'example.com', '80', '/']],
  ['https://example.com', ['https', 'example.com', 'example.com', '', '']],
  ['HTTPS://user:pw@[::1]:80/', ['https', '[::1]:80', '::1', '80', '/']],
  ['https://[::1]/', ['https', '[::1]', '::1', '', '/']],
  [
    'https://example.com/path with spaces/',
    ['https', 'example.com', 'example.com', '', '/path%20with%20spaces/'],
  ],
  ['https://example.com/a%2Fb#f', ['https', 'example.com', 'example.com', '', '/a%2Fb']],
  ['mailto:someone@example.com', ['mailto', '', '', '', '']],
  ['//example.com/x', ['', '', '', '', '//example.com/x']],
])('the parts of %s', (text, expected) => {
  expect(parts(text)).toEqual(expected);
});

test.each([
  ['https://example.com/path?k1=a&k2=b&k2=c', { k1: ['a'], k2: ['b', 'c'] }],
  ['https://example.com/?key with spaces=value with spaces', { 'key with spaces': ['value with spaces'] }],
  ['https://example.com/?a=1+2&b=%C3%A9&c&d=%zz&e;f=1', { a: ['1 2'], b: ['é'], c: [''] }],
  ['https://example.com/path?', {}],
  ['https://example.com/path', {}],
])('the query of %s', (text, expected) => {
  expect(evaluate('url(text).getQuery()', { text })).toEqual(new Map(Object.entries(expected)));
});

test.each([
  [['https://a.example.com/x?y=z#f', '/path'], true],
  [['path', '', '../x', ':foo', 'https://a b/', 'https://a:port/', 'https://[::1/'], false],
  [['https://a/%zz', 'https://a/#%s', 'https://u ser@a/', 'a\n:b'], false],
])('isURL of each of %j is %s', (texts, result) => {
  for (const text of texts) expect(evaluate('isURL(text)', { text }), text).toBe(result);
});

test('an invalid URL has the message of Go', () => {
  expect(failureOf("url('not a url')")).toBe(
    'URL parse error during conversion from string: parse "not a url": invalid URI for request',
  );
});

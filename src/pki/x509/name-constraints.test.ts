import { expect, test } from 'vitest';
import { isInside } from './name-constraints.ts';

test.each([
  ['a.example.com', 'example.com', true],
  ['example.com', 'example.com', true],
  ['*.example.com', 'example.com', true],
  ['notexample.com', 'example.com', false],
  ['example.com.evil', 'example.com', false],
])('%s is inside %s: %s', (name, domain, inside) => {
  expect(isInside(name, domain)).toBe(inside);
});

import { expect, test } from 'vitest';

import { matchesSelector, type NormalSelector } from './label-selector.ts';

test.each<[NormalSelector, boolean]>([
  [{}, true],
  [{ matchLabels: { a: '1' } }, true],
  [{ matchLabels: { a: '2' } }, false],
  [{ matchLabels: { constructor: 'x' } }, false],
  [{ matchExpressions: [{ key: 'a', operator: 'In', values: ['0', '1'] }] }, true],
  [{ matchExpressions: [{ key: 'b', operator: 'In', values: ['1'] }] }, false],
  [{ matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['1'] }] }, false],
  [{ matchExpressions: [{ key: 'b', operator: 'NotIn', values: ['1'] }] }, true],
  [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }, true],
  [{ matchExpressions: [{ key: 'toString', operator: 'Exists' }] }, false],
  [{ matchExpressions: [{ key: 'a', operator: 'DoesNotExist' }] }, false],
  [{ matchLabels: { a: '1' }, matchExpressions: [{ key: 'b', operator: 'Exists' }] }, false],
])('%j selects an object with the label a=1: %j', (selector, selected) => {
  expect(matchesSelector(selector, { a: '1' })).toBe(selected);
});

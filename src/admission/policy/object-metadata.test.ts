import { expect, test } from 'vitest';

import { parseJson } from '../../json/json.ts';
import { labelsOf } from './object-metadata.ts';

test('labels are not copied, because a handler may list thousands of objects', () => {
  const labels = { app: 'shop', tier: 'web' };
  expect(labelsOf({ metadata: { labels } })).toBe(labels);
});

test('only labels with a text count', () => {
  const object = parseJson('{"metadata":{"labels":{"app":"shop","size":5,"__proto__":"web"}}}') as object;
  expect(Object.entries(labelsOf(object))).toEqual([
    ['app', 'shop'],
    ['__proto__', 'web'],
  ]);
  expect(labelsOf({ metadata: { labels: null } })).toEqual({});
  expect(labelsOf(undefined)).toEqual({});
});

import { describe, expect, test } from 'vitest';

import { isJsonArray } from '../../json/json.ts';
import { splitReview } from './review-text.ts';

const atOnce = () => undefined;

describe('the objects of a review', () => {
  test.each<[string, string, number]>([
    ['none', '{"request":{"objects":[]}}', 0],
    ['one', '{"request":{"objects":[{}]}}', 1],
    ['the last ones of a duplicate key', '{"request":{"objects":[1],"objects":[1,2,3]}}', 3],
    ['the objects of the last request', '{"request":{"objects":[1]},"request":{"objects":[1,2]}}', 2],
    ['the objects under an escaped key', '{"req\\u0075est":{"objects":[1]}}', 1],
    ['none in the response', '{"response":{"objects":[1]}}', 0],
  ])('are found: %s', async (_what, text, count) => {
    const { objects } = await splitReview(text, atOnce);
    expect(objects).toHaveLength(count);
    const whole = JSON.parse(text) as { request?: { objects?: unknown } };
    const list = whole.request?.objects;
    expect(isJsonArray(list) ? list.length : 0).toBe(count);
  });

  test('are found at any depth', async () => {
    const deep = `${'{"a":['.repeat(50_000)}${']}'.repeat(50_000)}`;
    const text = `{"request":{"objects":[${deep},{}]}}`;
    const { objects } = await splitReview(text, atOnce);
    expect(objects.map(({ start, end }) => end - start)).toEqual([deep.length, 2]);
  });
});

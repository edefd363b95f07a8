import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isJsonArray, isJsonObject, ownValue } from '../../json/json.ts';
import { splitReview } from './review-text.ts';

const atOnce = () => undefined;

/** Parses the parts of a split text and puts them together again. */
async function reassembled(text: string): Promise<unknown> {
  const { envelope, objects } = await splitReview(text, atOnce);
  const review: unknown = JSON.parse(envelope);
  const items = objects.map(({ start, end }) => JSON.parse(text.slice(start, end)) as unknown);
  if (objects.length === 0) return review;
  const request = isJsonObject(review) ? ownValue(review, 'request') : undefined;
  if (!isJsonObject(review) || !isJsonObject(request)) throw new Error('objects without a request');
  const merged = new Map<string, unknown>([...Object.entries(request), ['objects', items]]);
  return Object.fromEntries(
    new Map<string, unknown>([...Object.entries(review), ['request', Object.fromEntries(merged)]]),
  );
}

test('the parts of a review equal what JSON.parse returns for the whole', async () => {
  const json = fc.jsonValue({ maxDepth: 4 });
  const review = fc.record(
    {
      kind: json,
      request: fc.oneof(
        json,
        fc.record(
          { uid: json, objects: fc.oneof(json, fc.array(json)), desiredAPIVersion: json },
          { requiredKeys: [] },
        ),
      ),
      response: json,
    },
    { requiredKeys: [] },
  );
  const spaced = fc
    .tuple(review, fc.constantFrom(undefined, 1, '\t', '\r\n '))
    .map(([value, space]) => JSON.stringify(value, undefined, space));
  await fc.assert(
    fc.asyncProperty(spaced, async (text) => {
      expect(await reassembled(text)).toEqual(JSON.parse(text));
    }),
  );
});

/** Deletes, inserts or replaces one character: the text is then usually invalid JSON and must not be accepted. */
test('invalid JSON is detected, at the latest when the parts are parsed', async () => {
  const whole = '{"kind":"R","request":{"objects":[{"a":"\\"]}"},[1,{"b":null}], -1.5e3 ,true],"uid":"u"}}';
  const broken = fc
    .record({
      at: fc.nat(whole.length),
      cut: fc.nat(2),
      put: fc.constantFrom('', '"', '{', '}', '[', ']', ',', ':', '\\', ' x'),
    })
    .map(({ at, cut, put }) => whole.slice(0, at) + put + whole.slice(at + cut));
  await fc.assert(
    fc.asyncProperty(broken, async (text) => {
      const expected = parsed(text);
      const found = await reassembled(text).then(
        (value) => ({ value }),
        () => undefined,
      );
      expect(found).toEqual(expected);
    }),
    { numRuns: 2_000 },
  );
});

function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

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

import { expect, test } from 'vitest';

import { parseJson } from '../../json/json.ts';
import { ofJson, toJson } from '../api-object.ts';
import { itemTextOf, textOf } from './serialise.ts';

const object = ofJson({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a "quoted" name' },
  data: { big: 9007199254740993n },
});

test('the text says what the object says, kind and apiVersion first', () => {
  expect(parseJson(textOf(object))).toEqual(toJson(object));
  expect(textOf(object)).toMatch(/^\{"kind":"ConfigMap","apiVersion":"v1",/);
});

test('an item of a list is the object without kind and apiVersion', () => {
  expect(parseJson(itemTextOf(object))).toEqual({ metadata: object.metadata, data: toJson(object).data });
});

test('the text of a new object is not that of the one that it was made of', () => {
  const renamed = { ...object, metadata: { name: 'other' } };
  expect(textOf(object)).not.toBe(textOf(renamed));
});

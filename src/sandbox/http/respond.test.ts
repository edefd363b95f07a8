import { expect, test } from 'vitest';
import { parseJson } from '../../json/json.ts';
import { ofJson, toJson } from '../../machinery/api-object.ts';
import { itemTextOf, textOf, yamlOf } from './respond.ts';

const object = ofJson({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'a "quoted" name' },
  data: { big: 9007199254740993n },
});

test('the text contains the whole object, with kind and apiVersion first', () => {
  expect(parseJson(textOf(object))).toEqual(toJson(object));
  expect(textOf(object)).toMatch(/^\{"kind":"ConfigMap","apiVersion":"v1",/);
});

test('a list item is the object without kind and apiVersion', () => {
  expect(parseJson(itemTextOf(object))).toEqual({ metadata: object.metadata, data: toJson(object).data });
});

test('the text of a derived object is not that of the original', () => {
  const renamed = { ...object, metadata: { name: 'other' } };
  expect(textOf(object)).not.toBe(textOf(renamed));
});

test('keys are sorted and list items are not indented', () => {
  expect(yamlOf('{"b":[{"d":1,"c":2}],"a":{}}')).toBe('a: {}\nb:\n- c: 2\n  d: 1\n');
});

test('a long integer stays exact', () => {
  expect(yamlOf('{"size":9223372036854775807}')).toBe('size: 9223372036854775807\n');
});

test('a string that an older parser would read as a boolean or number is quoted', () => {
  expect(yamlOf('{"a":"yes","b":"1","c":"null"}')).toBe('a: "yes"\nb: "1"\nc: "null"\n');
});

test('a long string stays on one line, and equal values do not become anchors', () => {
  const text = 'word '.repeat(40).trim();
  expect(yamlOf(JSON.stringify({ a: text, b: [1], c: [1] }))).toBe(`a: ${text}\nb:\n- 1\nc:\n- 1\n`);
});

import { expect, test } from 'vitest';

import { ApiFailure } from '../../machinery/failure.ts';
import { objectBody } from './decode-body.ts';

const read = (text: string, contentType?: string) =>
  objectBody({ body: Buffer.from(text), contentType }, 'ConfigMap');

function refusal(text: string, contentType?: string): string {
  try {
    read(text, contentType);
  } catch (error) {
    if (error instanceof ApiFailure) return error.message;
    throw error;
  }
  throw new Error('expected an error');
}

const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

test('a body is parsed by its type', () => {
  expect(read('{"a":1}')).toEqual({ a: 1 });
  expect(read('a: 1', 'application/yaml')).toEqual({ a: 1 });
});

test('the error shows the kind and the beginning of the body', () => {
  const [start, end] = refusal('').split(': ', 3).slice(0, 2);
  expect(start).toBe('the object provided is unrecognized (must be of type ConfigMap)');
  expect(end).toBe("couldn't get version/kind; json parse error");
  expect(refusal('')).toMatch(/ \(<empty>\)$/);
  expect(refusal('{"a":')).toMatch(/ \(\{"a":\)$/);
  expect(refusal(`{"a":"${'x'.repeat(40)}`)).toMatch(/ \(\{"a":"x{24} \.\.\.\)$/);
  expect(refusal('no')).toMatch(/ \(6e6f\)$/);
});

test('a body may be nested as deeply as Go accepts', () => {
  expect(read(nested(10_000))).toHaveLength(1);
  expect(refusal(nested(10_001))).toContain('json parse error: exceeded max depth');
});

test('brackets in strings do not count as nesting', () => {
  const text = `"\\"${'['.repeat(20_000)}"`;
  expect(read(text)).toBe(JSON.parse(text));
});

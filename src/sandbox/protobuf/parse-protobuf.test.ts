import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { ApiFailure } from '../../machinery/failure.ts';
import { parseProtobuf } from './parse-protobuf.ts';

/** Bodies of kubectl 1.32, each with its object: at least one of every kind. */
const RECORDED = readFileSync('test/data/kubectl-bodies-1.32.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as { command: string; base64: string; object: object }); // our own file

const refusal = (body: Uint8Array): unknown => {
  try {
    return parseProtobuf(body);
  } catch (error) {
    if (error instanceof ApiFailure) return error.status;
    throw error;
  }
};

/** A bytes field: key, length, content. Numbers below 16 and lengths below 128 take one byte. */
const field = (number: number, ...content: readonly (number | string)[]): Buffer => {
  const bytes = Buffer.concat(
    content.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.of(part))),
  );
  return Buffer.concat([Buffer.of(number * 8 + 2, bytes.length), bytes]);
};
const body = (apiVersion: string, kind: string, object: Uint8Array, ...rest: readonly Uint8Array[]) =>
  Buffer.concat([
    Buffer.from('k8s\0'),
    field(1, ...field(1, apiVersion), ...field(2, kind)),
    field(2, ...object),
    ...rest,
  ]);
const configMap = (object: Uint8Array) => body('v1', 'ConfigMap', object);

describe('bodies of kubectl', () => {
  test.each(RECORDED)('kubectl $command', ({ base64, object }) => {
    expect(parseProtobuf(Buffer.from(base64, 'base64'))).toEqual(object);
  });
});

describe('invalid bodies', () => {
  test('a truncated body gives an object or is rejected', () => {
    for (const { base64 } of RECORDED) {
      const whole = Buffer.from(base64, 'base64');
      for (let length = 0; length < whole.length; length += 1) {
        expect(refusal(whole.subarray(0, length))).toHaveProperty('kind');
      }
    }
  });
});

test('a number is exact, however long it is', () => {
  const generation = (...bytes: readonly number[]) => parseProtobuf(configMap(field(1, 0x38, ...bytes)));
  expect(generation(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)).toMatchObject({
    metadata: { generation: 2n ** 63n - 1n },
  });
  expect(generation(...Array<number>(9).fill(0xff), 0x01)).toMatchObject({ metadata: { generation: -1 } });
});

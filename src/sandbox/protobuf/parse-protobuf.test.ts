import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ApiFailure } from '../../machinery/failure.ts';
import { parseProtobuf } from './parse-protobuf.ts';
import { RECORDED_BODIES } from '../../../test/support/sandbox/recorded-bodies.ts';

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
  test.each(RECORDED_BODIES)('kubectl $command', ({ base64, object }) => {
    expect(parseProtobuf(Buffer.from(base64, 'base64'))).toEqual(object);
  });
});

const JSON_ONLY = 'in protobuf: send application/json';

const endless = Array<number>(11).fill(0xff);
const farFuture = [...Array<number>(8).fill(0xff), 0x7f];

describe('invalid bodies', () => {
  test.each([
    ['nothing', Buffer.of(), 'provided data does not appear to be a protobuf message'],
    ['JSON', Buffer.from('{"kind":"a"}'), 'provided data does not appear to be a protobuf message'],
    ['a field of another type', configMap(Buffer.of(0x08, 1)), 'metadata has the wire type 0'],
    [
      'a value beyond its message',
      configMap(Buffer.of(0x0a, 9, 0)),
      'longer than the message that contains it',
    ],
    ['a number that ends early', configMap(field(1, 0x38, 0x80)), 'varint'],
    ['a number that does not end', configMap(field(1, 0x38, ...endless)), 'varint'],
    ['a field 0', configMap(Buffer.of(0)), 'the object has a field 0'],
    ['a time beyond all years', configMap(field(1, ...field(8, 0x08, ...farFuture))), 'Invalid time value'],
    [
      'managed fields that are not JSON',
      configMap(field(1, 0x8a, 1, 5, ...field(7, ...field(1, '{')))),
      'JSON',
    ],
  ])('%s is malformed', (_what, bytes, message) => {
    expect(refusal(bytes)).toMatchObject({
      kind: 'Status',
      code: 400,
      reason: 'BadRequest',
      message: expect.stringContaining(message) as string,
    });
  });

  test.each([
    ['an object without a kind', Buffer.from('k8s\0'), `cannot read an object without a kind ${JSON_ONLY}`],
    ['a kind without a table', body('v1', 'Pod', Buffer.of()), `cannot read v1 Pod ${JSON_ONLY}`],
    ['a known kind of another group', body('a.b/v1', 'ConfigMap', Buffer.of()), 'a.b/v1 ConfigMap'],
    ['a kind named like a property', body('v1', 'constructor', Buffer.of()), 'v1 constructor'],
    [
      'a field without a table',
      configMap(Buffer.of(0x20, 1)),
      'cannot read field 4 of the object in protobuf',
    ],
    ['a deeper unknown field', configMap(field(1, ...field(15, 'x'))), 'cannot read field 15 of metadata in'],
    ['another encoding', body('v1', 'ConfigMap', Buffer.of(), field(3, 'gzip')), 'field 3'],
  ])('%s is not supported', (_what, bytes, message) => {
    expect(refusal(bytes)).toMatchObject({
      kind: 'Status',
      code: 415,
      reason: 'UnsupportedMediaType',
      message: expect.stringContaining(message) as string,
    });
  });

  test('a truncated body gives an object or is rejected', () => {
    for (const { base64 } of RECORDED_BODIES) {
      const whole = Buffer.from(base64, 'base64');
      for (let length = 0; length < whole.length; length += 1) {
        expect(refusal(whole.subarray(0, length))).toHaveProperty('kind');
      }
    }
  });

  test('a body with a changed byte gives an object or is rejected', () => {
    fc.assert(
      fc.property(fc.constantFrom(...RECORDED_BODIES), fc.nat(), fc.nat(255), ({ base64 }, at, byte) => {
        const bytes = Buffer.from(base64, 'base64');
        bytes[at % bytes.length] = byte;
        expect(refusal(bytes)).toHaveProperty('kind');
      }),
    );
  });
});

test('unknown fields of a newer client are skipped if they are empty', () => {
  expect(parseProtobuf(configMap(Buffer.concat([Buffer.of(0x60, 0), field(13), field(2)])))).toEqual({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    data: { '': '' },
  });
});

test('a number is exact, however long it is', () => {
  const generation = (...bytes: readonly number[]) => parseProtobuf(configMap(field(1, 0x38, ...bytes)));
  expect(generation(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)).toMatchObject({
    metadata: { generation: 2n ** 63n - 1n },
  });
  expect(generation(...Array<number>(9).fill(0xff), 0x01)).toMatchObject({ metadata: { generation: -1 } });
});

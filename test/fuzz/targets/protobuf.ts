/** Protobuf bodies of kubectl with transmission errors or malicious changes. */
import fc from 'fast-check';

import { toJsonText } from '../../../src/json/json-text.ts';
import { isEqual, parseJson } from '../../../src/json/json.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';
import { parseProtobuf } from '../../../src/sandbox/protobuf/parse-protobuf.ts';
import { RECORDED_BODIES } from '../../support/sandbox/recorded-bodies.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const edit = fc.record({
  /** The position in the bytes, in [0, 1). */
  at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  drop: fc.oneof(fc.constant(0), fc.nat({ max: 3 }), fc.nat({ max: 60 })),
  insert: fc.array(fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(0, 0x0a, 0x12, 0x7f, 0x80, 0xff)), {
    maxLength: 4,
  }),
  times: fc.oneof({ weight: 10, arbitrary: fc.constant(1) }, fc.nat({ max: 2_000 })),
});

/** Encoded as base64. */
const bodies = fc
  .tuple(fc.constantFrom(...RECORDED_BODIES.map(({ base64 }) => base64)), fc.array(edit, { maxLength: 4 }))
  .map(([base64, edits]) =>
    edits
      .reduce<Buffer>(
        (bytes, { at, drop, insert, times }) => {
          const place = Math.floor(at * (bytes.length + 1));
          const repeated = Buffer.concat(Array.from({ length: times }, () => Buffer.from(insert)));
          return Buffer.concat([bytes.subarray(0, place), repeated, bytes.subarray(place + drop)]);
        },
        Buffer.from(base64, 'base64'),
      )
      .toString('base64'),
  );

export const protobuf = fuzzTarget('sandbox: protobuf', 30, bodies, (base64) => {
  const object = answerOf(
    () => parseProtobuf(Buffer.from(base64, 'base64')),
    (error) => error instanceof ApiFailure && error.status.code < 500,
  );
  if (object !== undefined)
    hold(isEqual(parseJson(toJsonText(object)), object), () => 'the object is not JSON');
});

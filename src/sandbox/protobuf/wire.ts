import { PbfReader } from 'pbf';

import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { unsupportedMediaType } from '../../machinery/failure.ts';

const VARINT = 0;
const BYTES_WITH_LENGTH = 2;

/** Reads the values of one field. Throws an Error for malformed input. */
interface How {
  /** The wire type that precedes each value. */
  readonly wire: number;
  /** Reads the next value. `path` is its place in the object: `spec.containers`. */
  readonly read: (reader: PbfReader, path: string) => JsonValue;
  /** The value of a field that is absent but required. */
  readonly zero: JsonValue;
  /** Combines all values of a field for JSON; undefined: JSON omits the field. */
  readonly join: (values: readonly JsonValue[]) => JsonValue | undefined;
}

export interface Message extends How {
  readonly decode: (bytes: Uint8Array, path: string) => JsonObject;
}

/** Fields by their JSON name: the field number and its reader. */
export type Fields = Readonly<Record<string, readonly [number: number, how: How]>>;

/** A scalar value. Use {@link given} for a field that JSON must contain, or that is a pointer in Go. */
const scalar = (wire: number, read: How['read'], zero: JsonValue): How => ({
  wire,
  read,
  zero,
  join: (values) => {
    const value = values.at(-1);
    return value === zero ? undefined : value;
  },
});

/** A field that counts whenever it is written, even if zero. */
export const given = (how: How): How => ({ ...how, join: (values) => values.at(-1) });

export const TEXT = scalar(BYTES_WITH_LENGTH, (reader) => textOf(bytesOf(reader)), '');
export const BOOL = scalar(VARINT, (reader) => reader.readVarint() !== 0, false);

/** int32 and int64: a bigint beyond 2^53. */
export const INT = scalar(VARINT, readInteger, 0);

export const BYTES = scalar(
  BYTES_WITH_LENGTH,
  (reader) => {
    const { buffer, byteOffset, length } = bytesOf(reader);
    return Buffer.from(buffer, byteOffset, length).toString('base64');
  },
  '',
);

export const list = (how: How): How => ({ ...how, zero: [], join: (values) => values });

/** A map with string keys: a message for each entry on the wire. */
export function map(how: How): How {
  const entry = message({ key: [1, TEXT], value: [2, given(how)] });
  return {
    wire: BYTES_WITH_LENGTH,
    read: (reader, path) => {
      const { key, value = how.zero } = entry.decode(bytesOf(reader), path);
      return { [typeof key === 'string' ? key : '']: value };
    },
    zero: {},
    join: merge,
  };
}

const merge = (values: readonly JsonValue[]): JsonObject =>
  Object.fromEntries(values.flatMap((value) => (isJsonObject(value) ? Object.entries(value) : [])));

/** A nested message, even if empty: Go always writes structs to JSON. */
export function message(fields: Fields): Message {
  const known = new Map<number, NamedField>(
    Object.entries(fields).map(([name, [number, how]]) => [number, { name, how }]),
  );
  const decode = (bytes: Uint8Array, path: string): JsonObject => {
    const values = readValues(new PbfReader(bytes), known, path);
    return Object.fromEntries(
      [...known].flatMap(([number, { name, how }]) => {
        const found = values.get(number);
        const value = found === undefined ? undefined : how.join(found);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  };
  return { ...given(scalar(BYTES_WITH_LENGTH, (reader, path) => decode(bytesOf(reader), path), {})), decode };
}

/** A message that JSON represents as another value. `zero`: Go's value if nothing was written. */
export const representedAs = (
  source: Message,
  spell: (message: JsonObject) => JsonValue,
  zero: JsonValue,
): How => scalar(BYTES_WITH_LENGTH, (reader, path) => spell(source.decode(bytesOf(reader), path)), zero);

interface NamedField {
  readonly name: string;
  readonly how: How;
}

function readValues(
  reader: PbfReader,
  known: ReadonlyMap<number, NamedField>,
  path: string,
): ReadonlyMap<number, readonly JsonValue[]> {
  const values = new Map<number, JsonValue[]>();
  while (reader.pos < reader.length) {
    const number = reader.nextField();
    if (number === 0) throw new Error(`${path === '' ? 'the object' : path} has a field 0`);
    const field = known.get(number);
    if (field === undefined) {
      if (!saysNothing(reader)) throw unknownField(number, path);
      continue;
    }
    const inner = path === '' ? field.name : `${path}.${field.name}`;
    if (reader.type !== field.how.wire) throw new Error(`${inner} has the wire type ${reader.type}`);
    const value = field.how.read(reader, inner);
    const before = values.get(number);
    if (before === undefined) values.set(number, [value]);
    else before.push(value);
  }
  return values;
}

/** Whether the next value is zero: a newer client writes new fields even if they are unset. */
function saysNothing(reader: PbfReader): boolean {
  if (reader.type === VARINT) return reader.readVarint() === 0;
  return reader.type === BYTES_WITH_LENGTH && bytesOf(reader).length === 0;
}

/** Rejects unknown fields with a value, so that no input is lost silently. The API server would drop them. */
const unknownField = (number: number, path: string) =>
  unsupportedMediaType(
    `the sandbox cannot read field ${number} of ${path === '' ? 'the object' : path} in protobuf: send application/json`,
  );

function bytesOf(reader: PbfReader): Uint8Array {
  const bytes = reader.readBytes();
  if (reader.pos > reader.length) throw new Error('a value is longer than the message that contains it');
  return bytes;
}

/** A byte order mark is part of the text. */
const UTF_8 = new TextDecoder('utf-8', { ignoreBOM: true });
export const textOf = (bytes: Uint8Array) => UTF_8.decode(bytes);

function readInteger(reader: PbfReader): number | bigint {
  const start = reader.pos;
  const value = reader.readVarint(true);
  if (Number.isSafeInteger(value)) return value;
  const bits = reader.buf
    .subarray(start, reader.pos)
    .reduce((sum, byte, index) => sum | (BigInt(byte & 0x7f) << BigInt(7 * index)), 0n);
  return BigInt.asIntN(64, bits);
}

import { PbfReader } from 'pbf';

import { isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { unsupportedMediaType } from '../../machinery/failure.ts';

const VARINT = 0;
const BYTES_WITH_LENGTH = 2;

/** How the values of one field are read. A reader that finds something else throws an Error. */
export interface How {
  /** What the wire says before each value: its wire type. */
  readonly wire: number;
  /** The next value. `path` says where it stands in the object: `spec.containers`. */
  readonly read: (reader: PbfReader, path: string) => JsonValue;
  /** What a value is that is left out where one has to be. */
  readonly zero: JsonValue;
  /** What all values of a field are in JSON; undefined: JSON would not have the field. */
  readonly join: (values: readonly JsonValue[]) => JsonValue | undefined;
}

/** A message without its length: what a body as a whole is. */
export interface Message extends How {
  readonly decode: (bytes: Uint8Array, path: string) => JsonObject;
}

/** Fields by their name in JSON: number on the wire, and how they are read. */
export type Fields = Readonly<Record<string, readonly [number: number, how: How]>>;

/**
 * A plain value. Go writes it even when it is zero, and leaves it out of JSON then (`omitempty`).
 *
 * What has to be in JSON all the same, or is a pointer in Go and so not written when it is not there, is {@link given}.
 */
export const scalar = (wire: number, read: How['read'], zero: JsonValue): How => ({
  wire,
  read,
  zero,
  join: (values) => {
    const value = values.at(-1);
    return value === zero ? undefined : value;
  },
});

/** A field that counts whenever it is written, zero or not. */
export const given = (how: How): How => ({ ...how, join: (values) => values.at(-1) });

export const TEXT = scalar(BYTES_WITH_LENGTH, (reader) => textOf(bytesOf(reader)), '');
export const BOOL = scalar(VARINT, (reader) => reader.readVarint() !== 0, false);

/** int32 and int64: a bigint beyond 2^53. */
export const INT = scalar(VARINT, readInteger, 0);

/** In base64, as JSON has bytes. */
export const BYTES = scalar(
  BYTES_WITH_LENGTH,
  (reader) => {
    const { buffer, byteOffset, length } = bytesOf(reader);
    return Buffer.from(buffer, byteOffset, length).toString('base64');
  },
  '',
);

export const list = (how: How): How => ({ ...how, zero: [], join: (values) => values });

/** A map from text: on the wire, a message for each entry. */
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

/** Objects into one. */
const merge = (values: readonly JsonValue[]): JsonObject =>
  Object.fromEntries(values.flatMap((value) => (isJsonObject(value) ? Object.entries(value) : [])));

/** A message of its own, also when it is empty: Go leaves no struct out of JSON. */
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

/** A message that JSON spells as another value. `zero`: what Go has where nothing was written. */
export const spelt = (source: Message, spell: (message: JsonObject) => JsonValue, zero: JsonValue): How =>
  scalar(BYTES_WITH_LENGTH, (reader, path) => spell(source.decode(bytesOf(reader), path)), zero);

/** `how`, for text of another kind: JSON in bytes. */
export const parsedText = (parse: (text: string) => JsonValue): How =>
  given(scalar(BYTES_WITH_LENGTH, (reader) => parse(textOf(bytesOf(reader))), null));

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

/** Whether the value at the reader is zero: a client newer than our tables writes new fields that nobody has set. */
function saysNothing(reader: PbfReader): boolean {
  if (reader.type === VARINT) return reader.readVarint() === 0;
  return reader.type === BYTES_WITH_LENGTH && bytesOf(reader).length === 0;
}

/** What a client has said must not get lost unheard, though the API server would drop what it does not know. */
const unknownField = (number: number, path: string) =>
  unsupportedMediaType(
    `the sandbox cannot read field ${number} of ${path === '' ? 'the object' : path} in protobuf: send application/json`,
  );

function bytesOf(reader: PbfReader): Uint8Array {
  const bytes = reader.readBytes();
  if (reader.pos > reader.length) throw new Error('a value is longer than what holds it');
  return bytes;
}

/** A byte order mark is part of the text. */
const UTF_8 = new TextDecoder('utf-8', { ignoreBOM: true });
const textOf = (bytes: Uint8Array) => UTF_8.decode(bytes);

function readInteger(reader: PbfReader): number | bigint {
  const start = reader.pos;
  const value = reader.readVarint(true);
  if (Number.isSafeInteger(value)) return value;
  const bits = reader.buf
    .subarray(start, reader.pos)
    .reduce((sum, byte, index) => sum | (BigInt(byte & 0x7f) << BigInt(7 * index)), 0n);
  return BigInt.asIntN(64, bits);
}

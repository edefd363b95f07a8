import { parseJson } from '../../admission/json.ts';
import { INT, TEXT, given, list, message, parsedText, spelt } from './wire.ts';

// Messages that JSON does not write as objects. Sources: k8s.io/apimachinery, pkg/apis/meta/v1, pkg/util/intstr, pkg/api/resource.

const TIMESTAMP = message({ seconds: [1, INT], nanos: [2, INT] });

const dateOf = (seconds: unknown) => new Date(Number(seconds) * 1_000).toISOString().slice(0, 19);

/** RFC 3339 with seconds; nobody's time is an empty message. */
export const TIME = spelt(
  TIMESTAMP,
  ({ seconds, nanos }) => (seconds === undefined && nanos === undefined ? null : `${dateOf(seconds ?? 0)}Z`),
  null,
);

/** RFC 3339 with microseconds. */
export const MICRO_TIME = spelt(
  TIMESTAMP,
  ({ seconds, nanos }) => {
    if (seconds === undefined && nanos === undefined) return null;
    const micros = Math.floor(Number(nanos ?? 0) / 1_000);
    return `${dateOf(seconds ?? 0)}.${String(micros).padStart(6, '0')}Z`;
  },
  null,
);

const TYPE_TEXT = 1;

export const INT_OR_STRING = spelt(
  message({ type: [1, INT], intVal: [2, INT], strVal: [3, TEXT] }),
  ({ type, intVal = 0, strVal = '' }) => (type === TYPE_TEXT ? strVal : intVal),
  0,
);

/** Text, as `100Mi`. None is zero, and counts. */
export const QUANTITY = given(spelt(message({ string: [1, TEXT] }), ({ string = '0' }) => string, '0'));

/** RawExtension, FieldsV1 and the JSON of apiextensions: JSON text in bytes. */
export const RAW_JSON = spelt(message({ raw: [1, parsedText(parseJson)] }), ({ raw = null }) => raw, null);

/** A list where protobuf knows none, as the values of a map. */
export const STRINGS = spelt(message({ items: [1, list(TEXT)] }), ({ items = [] }) => items, []);

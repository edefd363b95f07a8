import { parseJson } from '../../json/json.ts';
import { INT, TEXT, message, parsedText, spelt } from './wire.ts';

// Messages that JSON does not write as objects. Sources: k8s.io/apimachinery, pkg/apis/meta/v1 and pkg/util/intstr.

/** RFC 3339 with seconds; nobody's time is an empty message. */
export const TIME = spelt(
  message({ seconds: [1, INT], nanos: [2, INT] }),
  ({ seconds, nanos }) => {
    if (seconds === undefined && nanos === undefined) return null;
    return `${new Date(Number(seconds ?? 0) * 1_000).toISOString().slice(0, 19)}Z`;
  },
  null,
);

const TYPE_TEXT = 1;

export const INT_OR_STRING = spelt(
  message({ type: [1, INT], intVal: [2, INT], strVal: [3, TEXT] }),
  ({ type, intVal = 0, strVal = '' }) => (type === TYPE_TEXT ? strVal : intVal),
  0,
);

/** FieldsV1: JSON text in bytes. */
export const RAW_JSON = spelt(message({ raw: [1, parsedText(parseJson)] }), ({ raw = null }) => raw, null);

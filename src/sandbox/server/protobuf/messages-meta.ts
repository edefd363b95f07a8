import { BOOL, INT, TEXT, given, list, map, message, parsedText, representedAs } from './wire.ts';
import { parseJson } from '../../../json/json.ts';

// Messages that JSON represents as scalar values. Sources: k8s.io/apimachinery, pkg/apis/meta/v1 and pkg/util/intstr.

/** RFC 3339 with second precision; an unset time is an empty message. */
const TIME = representedAs(
  message({ seconds: [1, INT], nanos: [2, INT] }),
  ({ seconds, nanos }) => {
    if (seconds === undefined && nanos === undefined) return null;
    return `${new Date(Number(seconds ?? 0) * 1_000).toISOString().slice(0, 19)}Z`;
  },
  null,
);

const TYPE_TEXT = 1;

export const INT_OR_STRING = representedAs(
  message({ type: [1, INT], intVal: [2, INT], strVal: [3, TEXT] }),
  ({ type, intVal = 0, strVal = '' }) => (type === TYPE_TEXT ? strVal : intVal),
  0,
);

/** FieldsV1: JSON text in bytes. */
const RAW_JSON = representedAs(message({ raw: [1, parsedText(parseJson)] }), ({ raw = null }) => raw, null);

/** Fields that no client sets: Go writes them anyway, with zero values. */
export const NOTHING = message({});

const OWNER_REFERENCE = message({
  apiVersion: [5, given(TEXT)],
  kind: [1, given(TEXT)],
  name: [3, given(TEXT)],
  uid: [4, given(TEXT)],
  controller: [6, given(BOOL)],
  blockOwnerDeletion: [7, given(BOOL)],
});

const MANAGED_FIELDS_ENTRY = message({
  manager: [1, TEXT],
  operation: [2, TEXT],
  apiVersion: [3, TEXT],
  time: [4, TIME],
  fieldsType: [6, TEXT],
  fieldsV1: [7, RAW_JSON],
  subresource: [8, TEXT],
});

export const OBJECT_META = message({
  name: [1, TEXT],
  generateName: [2, TEXT],
  namespace: [3, TEXT],
  selfLink: [4, TEXT],
  uid: [5, TEXT],
  resourceVersion: [6, TEXT],
  generation: [7, INT],
  creationTimestamp: [8, TIME],
  deletionTimestamp: [9, TIME],
  deletionGracePeriodSeconds: [10, given(INT)],
  labels: [11, map(TEXT)],
  annotations: [12, map(TEXT)],
  ownerReferences: [13, list(OWNER_REFERENCE)],
  finalizers: [14, list(TEXT)],
  managedFields: [17, list(MANAGED_FIELDS_ENTRY)],
});

const LABEL_SELECTOR_REQUIREMENT = message({
  key: [1, given(TEXT)],
  operator: [2, given(TEXT)],
  values: [3, list(TEXT)],
});

export const LABEL_SELECTOR = message({
  matchLabels: [1, map(TEXT)],
  matchExpressions: [2, list(LABEL_SELECTOR_REQUIREMENT)],
});

const PRECONDITIONS = message({
  uid: [1, given(TEXT)],
  resourceVersion: [2, given(TEXT)],
});

export const DELETE_OPTIONS = message({
  gracePeriodSeconds: [1, given(INT)],
  preconditions: [2, PRECONDITIONS],
  orphanDependents: [3, given(BOOL)],
  propagationPolicy: [4, given(TEXT)],
  dryRun: [5, list(TEXT)],
});

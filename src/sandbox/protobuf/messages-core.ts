import { OBJECT_META } from './messages-meta.ts';
import { TIME } from './values.ts';
import { BOOL, BYTES, TEXT, given, list, map, message } from './wire.ts';

export const LOCAL_OBJECT_REFERENCE = message({
  name: [1, TEXT],
});

export const OBJECT_REFERENCE = message({
  kind: [1, TEXT],
  namespace: [2, TEXT],
  name: [3, TEXT],
  uid: [4, TEXT],
  apiVersion: [5, TEXT],
  resourceVersion: [6, TEXT],
  fieldPath: [7, TEXT],
});

export const CONFIG_MAP = message({
  metadata: [1, OBJECT_META],
  immutable: [4, given(BOOL)],
  data: [2, map(TEXT)],
  binaryData: [3, map(BYTES)],
});

export const SECRET = message({
  metadata: [1, OBJECT_META],
  immutable: [5, given(BOOL)],
  data: [2, map(BYTES)],
  stringData: [4, map(TEXT)],
  type: [3, TEXT],
});

const NAMESPACE_SPEC = message({
  finalizers: [1, list(TEXT)],
});

const NAMESPACE_CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastTransitionTime: [4, TIME],
  reason: [5, TEXT],
  message: [6, TEXT],
});

const NAMESPACE_STATUS = message({
  phase: [1, TEXT],
  conditions: [2, list(NAMESPACE_CONDITION)],
});

export const NAMESPACE = message({
  metadata: [1, OBJECT_META],
  spec: [2, NAMESPACE_SPEC],
  status: [3, NAMESPACE_STATUS],
});

export const SERVICE_ACCOUNT = message({
  metadata: [1, OBJECT_META],
  secrets: [2, list(OBJECT_REFERENCE)],
  imagePullSecrets: [3, list(LOCAL_OBJECT_REFERENCE)],
  automountServiceAccountToken: [4, given(BOOL)],
});

export const TYPED_LOCAL_OBJECT_REFERENCE = message({
  apiGroup: [1, given(TEXT)],
  kind: [2, given(TEXT)],
  name: [3, given(TEXT)],
});

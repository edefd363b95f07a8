import { OBJECT_META } from './messages-meta.ts';
import { TIME } from './values.ts';
import { BOOL, BYTES, INT, TEXT, given, list, message } from './wire.ts';

const SERVICE_REFERENCE = message({
  namespace: [1, TEXT],
  name: [2, TEXT],
  port: [3, given(INT)],
});

const SPEC = message({
  service: [1, SERVICE_REFERENCE],
  group: [2, TEXT],
  version: [3, TEXT],
  insecureSkipTLSVerify: [4, BOOL],
  caBundle: [5, BYTES],
  groupPriorityMinimum: [7, given(INT)],
  versionPriority: [8, given(INT)],
});

const CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastTransitionTime: [3, TIME],
  reason: [4, TEXT],
  message: [5, TEXT],
});

export const API_SERVICE = message({
  metadata: [1, OBJECT_META],
  spec: [2, SPEC],
  status: [3, message({ conditions: [1, list(CONDITION)] })],
});

import { OBJECT_REFERENCE } from './messages-core.ts';
import { OBJECT_META } from './messages-meta.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const ENDPOINT_CONDITIONS = message({
  ready: [1, given(BOOL)],
  serving: [2, given(BOOL)],
  terminating: [3, given(BOOL)],
});

const FOR_ZONE = message({
  name: [1, given(TEXT)],
});

const ENDPOINT_HINTS = message({
  forZones: [1, list(FOR_ZONE)],
});

const ENDPOINT = message({
  addresses: [1, list(TEXT)],
  conditions: [2, ENDPOINT_CONDITIONS],
  hostname: [3, given(TEXT)],
  targetRef: [4, OBJECT_REFERENCE],
  deprecatedTopology: [5, map(TEXT)],
  nodeName: [6, given(TEXT)],
  zone: [7, given(TEXT)],
  hints: [8, ENDPOINT_HINTS],
});

const ENDPOINT_PORT = message({
  name: [1, given(TEXT)],
  protocol: [2, given(TEXT)],
  port: [3, given(INT)],
  appProtocol: [4, given(TEXT)],
});

export const ENDPOINT_SLICE = message({
  metadata: [1, OBJECT_META],
  addressType: [4, given(TEXT)],
  endpoints: [2, list(ENDPOINT)],
  ports: [3, list(ENDPOINT_PORT)],
});

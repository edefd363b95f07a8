import { NOTHING, OBJECT_META } from './messages-meta.ts';
import { INT, TEXT, given, list, message } from './wire.ts';

// What is asked of groups authentication.k8s.io and authorization.k8s.io.

const BOUND_OBJECT_REFERENCE = message({
  kind: [1, TEXT],
  apiVersion: [2, TEXT],
  name: [3, TEXT],
  uid: [4, TEXT],
});

const TOKEN_REQUEST_SPEC = message({
  audiences: [1, list(TEXT)],
  expirationSeconds: [4, given(INT)],
  boundObjectRef: [3, BOUND_OBJECT_REFERENCE],
});

export const TOKEN_REQUEST = message({
  metadata: [1, OBJECT_META],
  spec: [2, TOKEN_REQUEST_SPEC],
  status: [3, NOTHING],
});

export const SELF_SUBJECT_REVIEW = message({
  metadata: [1, OBJECT_META],
  status: [2, message({ userInfo: [1, NOTHING] })],
});

const RESOURCE_ATTRIBUTES = message({
  namespace: [1, TEXT],
  verb: [2, TEXT],
  group: [3, TEXT],
  version: [4, TEXT],
  resource: [5, TEXT],
  subresource: [6, TEXT],
  name: [7, TEXT],
});

const NON_RESOURCE_ATTRIBUTES = message({
  path: [1, TEXT],
  verb: [2, TEXT],
});

const SELF_SUBJECT_ACCESS_REVIEW_SPEC = message({
  resourceAttributes: [1, RESOURCE_ATTRIBUTES],
  nonResourceAttributes: [2, NON_RESOURCE_ATTRIBUTES],
});

export const SELF_SUBJECT_ACCESS_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SELF_SUBJECT_ACCESS_REVIEW_SPEC],
  status: [3, NOTHING],
});

export const SELF_SUBJECT_RULES_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, message({ namespace: [1, TEXT] })],
  status: [3, NOTHING],
});

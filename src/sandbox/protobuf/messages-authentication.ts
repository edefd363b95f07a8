import { OBJECT_META } from './messages-meta.ts';
import { STRINGS, TIME } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

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

const TOKEN_REQUEST_STATUS = message({
  token: [1, given(TEXT)],
  expirationTimestamp: [2, TIME],
});

export const TOKEN_REQUEST = message({
  metadata: [1, OBJECT_META],
  spec: [2, TOKEN_REQUEST_SPEC],
  status: [3, TOKEN_REQUEST_STATUS],
});

const TOKEN_REVIEW_SPEC = message({
  token: [1, TEXT],
  audiences: [2, list(TEXT)],
});

const USER_INFO = message({
  username: [1, TEXT],
  uid: [2, TEXT],
  groups: [3, list(TEXT)],
  extra: [4, map(STRINGS)],
});

const TOKEN_REVIEW_STATUS = message({
  authenticated: [1, BOOL],
  user: [2, USER_INFO],
  audiences: [4, list(TEXT)],
  error: [3, TEXT],
});

export const TOKEN_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, TOKEN_REVIEW_SPEC],
  status: [3, TOKEN_REVIEW_STATUS],
});

const SELF_SUBJECT_REVIEW_STATUS = message({
  userInfo: [1, USER_INFO],
});

export const SELF_SUBJECT_REVIEW = message({
  metadata: [1, OBJECT_META],
  status: [2, SELF_SUBJECT_REVIEW_STATUS],
});

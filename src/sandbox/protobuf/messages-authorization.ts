import { LABEL_SELECTOR_REQUIREMENT, OBJECT_META } from './messages-meta.ts';
import { STRINGS } from './values.ts';
import { BOOL, TEXT, given, list, map, message } from './wire.ts';

const FIELD_SELECTOR_REQUIREMENT = message({
  key: [1, given(TEXT)],
  operator: [2, given(TEXT)],
  values: [3, list(TEXT)],
});

const FIELD_SELECTOR_ATTRIBUTES = message({
  rawSelector: [1, TEXT],
  requirements: [2, list(FIELD_SELECTOR_REQUIREMENT)],
});

const LABEL_SELECTOR_ATTRIBUTES = message({
  rawSelector: [1, TEXT],
  requirements: [2, list(LABEL_SELECTOR_REQUIREMENT)],
});

const RESOURCE_ATTRIBUTES = message({
  namespace: [1, TEXT],
  verb: [2, TEXT],
  group: [3, TEXT],
  version: [4, TEXT],
  resource: [5, TEXT],
  subresource: [6, TEXT],
  name: [7, TEXT],
  fieldSelector: [8, FIELD_SELECTOR_ATTRIBUTES],
  labelSelector: [9, LABEL_SELECTOR_ATTRIBUTES],
});

const NON_RESOURCE_ATTRIBUTES = message({
  path: [1, TEXT],
  verb: [2, TEXT],
});

const SUBJECT_ACCESS_REVIEW_SPEC = message({
  resourceAttributes: [1, RESOURCE_ATTRIBUTES],
  nonResourceAttributes: [2, NON_RESOURCE_ATTRIBUTES],
  user: [3, TEXT],
  groups: [4, list(TEXT)],
  extra: [5, map(STRINGS)],
  uid: [6, TEXT],
});

const SUBJECT_ACCESS_REVIEW_STATUS = message({
  allowed: [1, given(BOOL)],
  denied: [4, BOOL],
  reason: [2, TEXT],
  evaluationError: [3, TEXT],
});

export const SUBJECT_ACCESS_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SUBJECT_ACCESS_REVIEW_SPEC],
  status: [3, SUBJECT_ACCESS_REVIEW_STATUS],
});

const SELF_SUBJECT_ACCESS_REVIEW_SPEC = message({
  resourceAttributes: [1, RESOURCE_ATTRIBUTES],
  nonResourceAttributes: [2, NON_RESOURCE_ATTRIBUTES],
});

export const SELF_SUBJECT_ACCESS_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SELF_SUBJECT_ACCESS_REVIEW_SPEC],
  status: [3, SUBJECT_ACCESS_REVIEW_STATUS],
});

export const LOCAL_SUBJECT_ACCESS_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SUBJECT_ACCESS_REVIEW_SPEC],
  status: [3, SUBJECT_ACCESS_REVIEW_STATUS],
});

const SELF_SUBJECT_RULES_REVIEW_SPEC = message({
  namespace: [1, TEXT],
});

const RESOURCE_RULE = message({
  verbs: [1, list(TEXT)],
  apiGroups: [2, list(TEXT)],
  resources: [3, list(TEXT)],
  resourceNames: [4, list(TEXT)],
});

const NON_RESOURCE_RULE = message({
  verbs: [1, list(TEXT)],
  nonResourceURLs: [2, list(TEXT)],
});

const SUBJECT_RULES_REVIEW_STATUS = message({
  resourceRules: [1, list(RESOURCE_RULE)],
  nonResourceRules: [2, list(NON_RESOURCE_RULE)],
  incomplete: [3, given(BOOL)],
  evaluationError: [4, TEXT],
});

export const SELF_SUBJECT_RULES_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SELF_SUBJECT_RULES_REVIEW_SPEC],
  status: [3, SUBJECT_RULES_REVIEW_STATUS],
});

import { LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { TEXT, given, list, message } from './wire.ts';

const POLICY_RULE = message({
  verbs: [1, list(TEXT)],
  apiGroups: [2, list(TEXT)],
  resources: [3, list(TEXT)],
  resourceNames: [4, list(TEXT)],
  nonResourceURLs: [5, list(TEXT)],
});

export const ROLE = message({
  metadata: [1, OBJECT_META],
  rules: [2, list(POLICY_RULE)],
});

const AGGREGATION_RULE = message({
  clusterRoleSelectors: [1, list(LABEL_SELECTOR)],
});

export const CLUSTER_ROLE = message({
  metadata: [1, OBJECT_META],
  rules: [2, list(POLICY_RULE)],
  aggregationRule: [3, AGGREGATION_RULE],
});

const SUBJECT = message({
  kind: [1, given(TEXT)],
  apiGroup: [2, TEXT],
  name: [3, given(TEXT)],
  namespace: [4, TEXT],
});

const ROLE_REF = message({
  apiGroup: [1, given(TEXT)],
  kind: [2, given(TEXT)],
  name: [3, given(TEXT)],
});

export const ROLE_BINDING = message({
  metadata: [1, OBJECT_META],
  subjects: [2, list(SUBJECT)],
  roleRef: [3, ROLE_REF],
});

export const CLUSTER_ROLE_BINDING = message({
  metadata: [1, OBJECT_META],
  subjects: [2, list(SUBJECT)],
  roleRef: [3, ROLE_REF],
});

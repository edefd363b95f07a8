import { LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { BYTES, INT, TEXT, given, list, message } from './wire.ts';

const SERVICE_REFERENCE = message({
  namespace: [1, given(TEXT)],
  name: [2, given(TEXT)],
  path: [3, given(TEXT)],
  port: [4, given(INT)],
});

export const WEBHOOK_CLIENT_CONFIG = message({
  url: [3, given(TEXT)],
  service: [1, SERVICE_REFERENCE],
  caBundle: [2, BYTES],
});

const RULE = message({
  apiGroups: [1, list(TEXT)],
  apiVersions: [2, list(TEXT)],
  resources: [3, list(TEXT)],
  scope: [4, given(TEXT)],
});

const RULE_WITH_OPERATIONS = message(
  {
    operations: [1, list(TEXT)],
  },
  { 2: RULE },
);

const MATCH_CONDITION = message({
  name: [1, given(TEXT)],
  expression: [2, given(TEXT)],
});

const MUTATING_WEBHOOK = message({
  name: [1, given(TEXT)],
  clientConfig: [2, WEBHOOK_CLIENT_CONFIG],
  rules: [3, list(RULE_WITH_OPERATIONS)],
  failurePolicy: [4, given(TEXT)],
  matchPolicy: [9, given(TEXT)],
  namespaceSelector: [5, LABEL_SELECTOR],
  objectSelector: [11, LABEL_SELECTOR],
  sideEffects: [6, given(TEXT)],
  timeoutSeconds: [7, given(INT)],
  admissionReviewVersions: [8, list(TEXT)],
  reinvocationPolicy: [10, given(TEXT)],
  matchConditions: [12, list(MATCH_CONDITION)],
});

export const MUTATING_WEBHOOK_CONFIGURATION = message({
  metadata: [1, OBJECT_META],
  webhooks: [2, list(MUTATING_WEBHOOK)],
});

const VALIDATING_WEBHOOK = message({
  name: [1, given(TEXT)],
  clientConfig: [2, WEBHOOK_CLIENT_CONFIG],
  rules: [3, list(RULE_WITH_OPERATIONS)],
  failurePolicy: [4, given(TEXT)],
  matchPolicy: [9, given(TEXT)],
  namespaceSelector: [5, LABEL_SELECTOR],
  objectSelector: [10, LABEL_SELECTOR],
  sideEffects: [6, given(TEXT)],
  timeoutSeconds: [7, given(INT)],
  admissionReviewVersions: [8, list(TEXT)],
  matchConditions: [11, list(MATCH_CONDITION)],
});

export const VALIDATING_WEBHOOK_CONFIGURATION = message({
  metadata: [1, OBJECT_META],
  webhooks: [2, list(VALIDATING_WEBHOOK)],
});

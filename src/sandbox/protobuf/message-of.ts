import {
  INT,
  TEXT,
  given,
  list,
  message,
  BYTES,
  map,
  BOOL,
  parsedText,
  representedAs,
  type Message,
} from './wire.ts';
import { parseJson } from '../../json/json.ts';

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

const INT_OR_STRING = representedAs(
  message({ type: [1, INT], intVal: [2, INT], strVal: [3, TEXT] }),
  ({ type, intVal = 0, strVal = '' }) => (type === TYPE_TEXT ? strVal : intVal),
  0,
);

/** FieldsV1: JSON text in bytes. */
const RAW_JSON = representedAs(message({ raw: [1, parsedText(parseJson)] }), ({ raw = null }) => raw, null);

/** Fields that no client sets: Go writes them anyway, with zero values. */
const NOTHING = message({});

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

const OBJECT_META = message({
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

const LABEL_SELECTOR = message({
  matchLabels: [1, map(TEXT)],
  matchExpressions: [2, list(LABEL_SELECTOR_REQUIREMENT)],
});

const PRECONDITIONS = message({
  uid: [1, given(TEXT)],
  resourceVersion: [2, given(TEXT)],
});

const DELETE_OPTIONS = message({
  gracePeriodSeconds: [1, given(INT)],
  preconditions: [2, PRECONDITIONS],
  orphanDependents: [3, given(BOOL)],
  propagationPolicy: [4, given(TEXT)],
  dryRun: [5, list(TEXT)],
});

const CONTAINER = message({
  name: [1, given(TEXT)],
  image: [2, TEXT],
  command: [3, list(TEXT)],
  ports: [6, list(message({ containerPort: [3, given(INT)] }))],
  resources: [8, NOTHING],
});

const POD_TEMPLATE_SPEC = message({
  metadata: [1, OBJECT_META],
  spec: [2, message({ containers: [2, list(CONTAINER)] })],
});

const DEPLOYMENT_SPEC = message({
  replicas: [1, given(INT)],
  selector: [2, LABEL_SELECTOR],
  template: [3, POD_TEMPLATE_SPEC],
  strategy: [4, NOTHING],
});

const DEPLOYMENT = message({
  metadata: [1, OBJECT_META],
  spec: [2, DEPLOYMENT_SPEC],
  status: [3, NOTHING],
});

const CONFIG_MAP = message({
  metadata: [1, OBJECT_META],
  data: [2, map(TEXT)],
  binaryData: [3, map(BYTES)],
});

const NAMESPACE = message({
  metadata: [1, OBJECT_META],
  spec: [2, NOTHING],
  status: [3, NOTHING],
});

const SECRET = message({
  metadata: [1, OBJECT_META],
  data: [2, map(BYTES)],
  type: [3, TEXT],
});

const SERVICE_ACCOUNT = message({ metadata: [1, OBJECT_META] });

const SERVICE_PORT = message({
  name: [1, TEXT],
  protocol: [2, TEXT],
  port: [3, given(INT)],
  targetPort: [4, INT_OR_STRING],
  nodePort: [5, INT],
});

const SERVICE_SPEC = message({
  ports: [1, list(SERVICE_PORT)],
  selector: [2, map(TEXT)],
  clusterIP: [3, TEXT],
  type: [4, TEXT],
  externalName: [10, TEXT],
});

const SERVICE = message({
  metadata: [1, OBJECT_META],
  spec: [2, SERVICE_SPEC],
  status: [3, message({ loadBalancer: [1, NOTHING] })],
});

const POD_DISRUPTION_BUDGET_SPEC = message({
  minAvailable: [1, given(INT_OR_STRING)],
  selector: [2, LABEL_SELECTOR],
  maxUnavailable: [3, given(INT_OR_STRING)],
});

const POD_DISRUPTION_BUDGET = message({
  metadata: [1, OBJECT_META],
  spec: [2, POD_DISRUPTION_BUDGET_SPEC],
  status: [3, NOTHING],
});

const POLICY_RULE = message({
  verbs: [1, list(TEXT)],
  apiGroups: [2, list(TEXT)],
  resources: [3, list(TEXT)],
  resourceNames: [4, list(TEXT)],
  nonResourceURLs: [5, list(TEXT)],
});

const ROLE = message({
  metadata: [1, OBJECT_META],
  rules: [2, list(POLICY_RULE)],
});

const AGGREGATION_RULE = message({
  clusterRoleSelectors: [1, list(LABEL_SELECTOR)],
});

const CLUSTER_ROLE = message({
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

const ROLE_BINDING = message({
  metadata: [1, OBJECT_META],
  subjects: [2, list(SUBJECT)],
  roleRef: [3, ROLE_REF],
});

const CLUSTER_ROLE_BINDING = message({
  metadata: [1, OBJECT_META],
  subjects: [2, list(SUBJECT)],
  roleRef: [3, ROLE_REF],
});

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

const TOKEN_REQUEST = message({
  metadata: [1, OBJECT_META],
  spec: [2, TOKEN_REQUEST_SPEC],
  status: [3, NOTHING],
});

const SELF_SUBJECT_REVIEW = message({
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

const SELF_SUBJECT_ACCESS_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, SELF_SUBJECT_ACCESS_REVIEW_SPEC],
  status: [3, NOTHING],
});

const SELF_SUBJECT_RULES_REVIEW = message({
  metadata: [1, OBJECT_META],
  spec: [2, message({ namespace: [1, TEXT] })],
  status: [3, NOTHING],
});

/**
 * The kinds that kubectl sends only in protobuf: the objects of `kubectl create KIND`, `kubectl auth` and `kubectl
 * create token`, with the fields that those commands can set. All other commands send JSON.
 */
const MESSAGES = {
  v1: {
    ConfigMap: CONFIG_MAP,
    Namespace: NAMESPACE,
    Secret: SECRET,
    Service: SERVICE,
    ServiceAccount: SERVICE_ACCOUNT,
  },
  'apps/v1': { Deployment: DEPLOYMENT },
  'authentication.k8s.io/v1': { SelfSubjectReview: SELF_SUBJECT_REVIEW, TokenRequest: TOKEN_REQUEST },
  'authorization.k8s.io/v1': {
    SelfSubjectAccessReview: SELF_SUBJECT_ACCESS_REVIEW,
    SelfSubjectRulesReview: SELF_SUBJECT_RULES_REVIEW,
  },
  'policy/v1': { PodDisruptionBudget: POD_DISRUPTION_BUDGET },
  'rbac.authorization.k8s.io/v1': {
    ClusterRole: CLUSTER_ROLE,
    ClusterRoleBinding: CLUSTER_ROLE_BINDING,
    Role: ROLE,
    RoleBinding: ROLE_BINDING,
  },
} satisfies Readonly<Record<string, Readonly<Record<string, Message>>>>;

const BY_KIND: ReadonlyMap<string, Message> = new Map(
  Object.entries(MESSAGES).flatMap(([apiVersion, kinds]) =>
    Object.entries(kinds).map(([kind, message]) => [`${apiVersion}/${kind}`, message] as const),
  ),
);

/** The message for objects of a kind; undefined if the sandbox does not support it. */
export function messageOf(apiVersion: string, kind: string): Message | undefined {
  // The client writes DeleteOptions in the apiVersion of the object that it deletes.
  return kind === 'DeleteOptions' ? DELETE_OPTIONS : BY_KIND.get(`${apiVersion}/${kind}`);
}

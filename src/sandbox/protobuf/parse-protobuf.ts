import { parseJson, type JsonObject } from '../../json/json.ts';
import { ApiFailure, badRequest, unsupportedMediaType } from '../../machinery/failure.ts';
import { record, text } from '../../machinery/fields.ts';
import {
  BOOL,
  BYTES,
  given,
  INT,
  list,
  map,
  message,
  representedAs,
  TEXT,
  type Fields,
  type Message,
} from './wire.ts';

const MAGIC = Buffer.from('k8s\0', 'latin1');

/** runtime.Unknown of k8s.io/apimachinery: the envelope of every body. */
const ENVELOPE = message({
  typeMeta: [1, message({ apiVersion: [1, TEXT], kind: [2, TEXT] })],
  raw: [2, BYTES],
});

/** Decodes a body of `application/vnd.kubernetes.protobuf` into the object that JSON would give. */
export function parseProtobuf(body: Uint8Array): JsonObject {
  try {
    return parse(body);
  } catch (error) {
    if (error instanceof ApiFailure || !(error instanceof Error)) throw error;
    throw badRequest(`couldn't get version/kind; protobuf parse error: ${error.message}`);
  }
}

function parse(body: Uint8Array): JsonObject {
  if (!MAGIC.equals(body.subarray(0, MAGIC.length))) {
    throw new Error('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  }
  const envelope = ENVELOPE.decode(body.subarray(MAGIC.length), '');
  const typeMeta = record(envelope, 'typeMeta') ?? {};
  const [apiVersion, kind] = [text(typeMeta, 'apiVersion'), text(typeMeta, 'kind')];
  // The client writes DeleteOptions in the apiVersion of the object that it deletes.
  const found = kind === 'DeleteOptions' ? DELETE_OPTIONS : MESSAGES.get(`${apiVersion} ${kind}`);
  if (found === undefined) {
    throw unsupportedMediaType(
      `the sandbox cannot read ${kind === '' ? 'an object without a kind' : `${apiVersion} ${kind}`} in protobuf: send application/json`,
    );
  }
  return { apiVersion, kind, ...found.decode(Buffer.from(text(envelope, 'raw'), 'base64'), '') };
}

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
const RAW_JSON = representedAs(
  message({ raw: [1, TEXT] }),
  (fields) => ('raw' in fields ? parseJson(text(fields, 'raw')) : null),
  null,
);

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

const object = (fields: Fields): Message => message({ metadata: [1, OBJECT_META], ...fields });

const CONTAINER = message({
  name: [1, given(TEXT)],
  image: [2, TEXT],
  command: [3, list(TEXT)],
  ports: [6, list(message({ containerPort: [3, given(INT)] }))],
  resources: [8, NOTHING],
});

const DEPLOYMENT_SPEC = message({
  replicas: [1, given(INT)],
  selector: [2, LABEL_SELECTOR],
  template: [3, object({ spec: [2, message({ containers: [2, list(CONTAINER)] })] })],
  strategy: [4, NOTHING],
});

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

const POD_DISRUPTION_BUDGET_SPEC = message({
  minAvailable: [1, given(INT_OR_STRING)],
  selector: [2, LABEL_SELECTOR],
  maxUnavailable: [3, given(INT_OR_STRING)],
});

const POLICY_RULE = message({
  verbs: [1, list(TEXT)],
  apiGroups: [2, list(TEXT)],
  resources: [3, list(TEXT)],
  resourceNames: [4, list(TEXT)],
  nonResourceURLs: [5, list(TEXT)],
});

const SUBJECT = message({
  kind: [1, given(TEXT)],
  apiGroup: [2, TEXT],
  name: [3, given(TEXT)],
  namespace: [4, TEXT],
});

const ROLE_REF = message({ apiGroup: [1, given(TEXT)], kind: [2, given(TEXT)], name: [3, given(TEXT)] });

const BINDING = object({ subjects: [2, list(SUBJECT)], roleRef: [3, ROLE_REF] });

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

const RESOURCE_ATTRIBUTES = message({
  namespace: [1, TEXT],
  verb: [2, TEXT],
  group: [3, TEXT],
  version: [4, TEXT],
  resource: [5, TEXT],
  subresource: [6, TEXT],
  name: [7, TEXT],
});

const ACCESS_REVIEW_SPEC = message({
  resourceAttributes: [1, RESOURCE_ATTRIBUTES],
  nonResourceAttributes: [2, message({ path: [1, TEXT], verb: [2, TEXT] })],
});

/** The kinds that kubectl sends only in protobuf (`create KIND`, `auth`, `create token`), with the fields that it can set. */
const MESSAGES: ReadonlyMap<string, Message> = new Map([
  ['v1 ConfigMap', object({ data: [2, map(TEXT)], binaryData: [3, map(BYTES)] })],
  ['v1 Namespace', object({ spec: [2, NOTHING], status: [3, NOTHING] })],
  ['v1 Secret', object({ data: [2, map(BYTES)], type: [3, TEXT] })],
  ['v1 Service', object({ spec: [2, SERVICE_SPEC], status: [3, message({ loadBalancer: [1, NOTHING] })] })],
  ['v1 ServiceAccount', object({})],
  ['apps/v1 Deployment', object({ spec: [2, DEPLOYMENT_SPEC], status: [3, NOTHING] })],
  [
    'authentication.k8s.io/v1 SelfSubjectReview',
    object({ status: [2, message({ userInfo: [1, NOTHING] })] }),
  ],
  ['authentication.k8s.io/v1 TokenRequest', object({ spec: [2, TOKEN_REQUEST_SPEC], status: [3, NOTHING] })],
  [
    'authorization.k8s.io/v1 SelfSubjectAccessReview',
    object({ spec: [2, ACCESS_REVIEW_SPEC], status: [3, NOTHING] }),
  ],
  [
    'authorization.k8s.io/v1 SelfSubjectRulesReview',
    object({ spec: [2, message({ namespace: [1, TEXT] })], status: [3, NOTHING] }),
  ],
  ['policy/v1 PodDisruptionBudget', object({ spec: [2, POD_DISRUPTION_BUDGET_SPEC], status: [3, NOTHING] })],
  [
    'rbac.authorization.k8s.io/v1 ClusterRole',
    object({
      rules: [2, list(POLICY_RULE)],
      aggregationRule: [3, message({ clusterRoleSelectors: [1, list(LABEL_SELECTOR)] })],
    }),
  ],
  ['rbac.authorization.k8s.io/v1 ClusterRoleBinding', BINDING],
  ['rbac.authorization.k8s.io/v1 Role', object({ rules: [2, list(POLICY_RULE)] })],
  ['rbac.authorization.k8s.io/v1 RoleBinding', BINDING],
]);

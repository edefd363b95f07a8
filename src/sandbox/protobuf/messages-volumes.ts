import { LOCAL_OBJECT_REFERENCE, TYPED_LOCAL_OBJECT_REFERENCE } from './messages-core.ts';
import { LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { QUANTITY } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const HOST_PATH_VOLUME_SOURCE = message({
  path: [1, given(TEXT)],
  type: [2, given(TEXT)],
});

const EMPTY_DIR_VOLUME_SOURCE = message({
  medium: [1, TEXT],
  sizeLimit: [2, QUANTITY],
});

const KEY_TO_PATH = message({
  key: [1, given(TEXT)],
  path: [2, given(TEXT)],
  mode: [3, given(INT)],
});

const SECRET_VOLUME_SOURCE = message({
  secretName: [1, TEXT],
  items: [2, list(KEY_TO_PATH)],
  defaultMode: [3, given(INT)],
  optional: [4, given(BOOL)],
});

const NFS_VOLUME_SOURCE = message({
  server: [1, given(TEXT)],
  path: [2, given(TEXT)],
  readOnly: [3, BOOL],
});

const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = message({
  claimName: [1, given(TEXT)],
  readOnly: [2, BOOL],
});

export const OBJECT_FIELD_SELECTOR = message({
  apiVersion: [1, TEXT],
  fieldPath: [2, given(TEXT)],
});

export const RESOURCE_FIELD_SELECTOR = message({
  containerName: [1, TEXT],
  resource: [2, given(TEXT)],
  divisor: [3, QUANTITY],
});

const DOWNWARD_API_VOLUME_FILE = message({
  path: [1, given(TEXT)],
  fieldRef: [2, OBJECT_FIELD_SELECTOR],
  resourceFieldRef: [3, RESOURCE_FIELD_SELECTOR],
  mode: [4, given(INT)],
});

const DOWNWARD_API_VOLUME_SOURCE = message({
  items: [1, list(DOWNWARD_API_VOLUME_FILE)],
  defaultMode: [2, given(INT)],
});

const CONFIG_MAP_VOLUME_SOURCE = message(
  {
    items: [2, list(KEY_TO_PATH)],
    defaultMode: [3, given(INT)],
    optional: [4, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const SECRET_PROJECTION = message(
  {
    items: [2, list(KEY_TO_PATH)],
    optional: [4, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const DOWNWARD_API_PROJECTION = message({
  items: [1, list(DOWNWARD_API_VOLUME_FILE)],
});

const CONFIG_MAP_PROJECTION = message(
  {
    items: [2, list(KEY_TO_PATH)],
    optional: [4, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const SERVICE_ACCOUNT_TOKEN_PROJECTION = message({
  audience: [1, TEXT],
  expirationSeconds: [2, given(INT)],
  path: [3, given(TEXT)],
});

const CLUSTER_TRUST_BUNDLE_PROJECTION = message({
  name: [1, given(TEXT)],
  signerName: [2, given(TEXT)],
  labelSelector: [3, LABEL_SELECTOR],
  optional: [5, given(BOOL)],
  path: [4, given(TEXT)],
});

const VOLUME_PROJECTION = message({
  secret: [1, SECRET_PROJECTION],
  downwardAPI: [2, DOWNWARD_API_PROJECTION],
  configMap: [3, CONFIG_MAP_PROJECTION],
  serviceAccountToken: [4, SERVICE_ACCOUNT_TOKEN_PROJECTION],
  clusterTrustBundle: [5, CLUSTER_TRUST_BUNDLE_PROJECTION],
});

const PROJECTED_VOLUME_SOURCE = message({
  sources: [1, list(VOLUME_PROJECTION)],
  defaultMode: [2, given(INT)],
});

const CSI_VOLUME_SOURCE = message({
  driver: [1, given(TEXT)],
  readOnly: [2, given(BOOL)],
  fsType: [3, given(TEXT)],
  volumeAttributes: [4, map(TEXT)],
  nodePublishSecretRef: [5, LOCAL_OBJECT_REFERENCE],
});

const VOLUME_RESOURCE_REQUIREMENTS = message({
  limits: [1, map(QUANTITY)],
  requests: [2, map(QUANTITY)],
});

const TYPED_OBJECT_REFERENCE = message({
  apiGroup: [1, given(TEXT)],
  kind: [2, given(TEXT)],
  name: [3, given(TEXT)],
  namespace: [4, given(TEXT)],
});

const PERSISTENT_VOLUME_CLAIM_SPEC = message({
  accessModes: [1, list(TEXT)],
  selector: [4, LABEL_SELECTOR],
  resources: [2, VOLUME_RESOURCE_REQUIREMENTS],
  volumeName: [3, TEXT],
  storageClassName: [5, given(TEXT)],
  volumeMode: [6, given(TEXT)],
  dataSource: [7, TYPED_LOCAL_OBJECT_REFERENCE],
  dataSourceRef: [8, TYPED_OBJECT_REFERENCE],
  volumeAttributesClassName: [9, given(TEXT)],
});

const PERSISTENT_VOLUME_CLAIM_TEMPLATE = message({
  metadata: [1, OBJECT_META],
  spec: [2, PERSISTENT_VOLUME_CLAIM_SPEC],
});

const EPHEMERAL_VOLUME_SOURCE = message({
  volumeClaimTemplate: [1, PERSISTENT_VOLUME_CLAIM_TEMPLATE],
});

const IMAGE_VOLUME_SOURCE = message({
  reference: [1, TEXT],
  pullPolicy: [2, TEXT],
});

const VOLUME_SOURCE = message({
  hostPath: [1, HOST_PATH_VOLUME_SOURCE],
  emptyDir: [2, EMPTY_DIR_VOLUME_SOURCE],
  secret: [6, SECRET_VOLUME_SOURCE],
  nfs: [7, NFS_VOLUME_SOURCE],
  persistentVolumeClaim: [10, PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE],
  downwardAPI: [16, DOWNWARD_API_VOLUME_SOURCE],
  configMap: [19, CONFIG_MAP_VOLUME_SOURCE],
  projected: [26, PROJECTED_VOLUME_SOURCE],
  csi: [28, CSI_VOLUME_SOURCE],
  ephemeral: [29, EPHEMERAL_VOLUME_SOURCE],
  image: [30, IMAGE_VOLUME_SOURCE],
});

export const VOLUME = message(
  {
    name: [1, given(TEXT)],
  },
  { 2: VOLUME_SOURCE },
);

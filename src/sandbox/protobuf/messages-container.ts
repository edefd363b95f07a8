import { LOCAL_OBJECT_REFERENCE } from './messages-core.ts';
import { LIFECYCLE, PROBE } from './messages-probe.ts';
import { SECURITY_CONTEXT } from './messages-security.ts';
import { OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR } from './messages-volumes.ts';
import { QUANTITY } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const CONTAINER_PORT = message({
  name: [1, TEXT],
  hostPort: [2, INT],
  containerPort: [3, given(INT)],
  protocol: [4, TEXT],
  hostIP: [5, TEXT],
});

const CONFIG_MAP_ENV_SOURCE = message(
  {
    optional: [2, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const SECRET_ENV_SOURCE = message(
  {
    optional: [2, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const ENV_FROM_SOURCE = message({
  prefix: [1, TEXT],
  configMapRef: [2, CONFIG_MAP_ENV_SOURCE],
  secretRef: [3, SECRET_ENV_SOURCE],
});

const CONFIG_MAP_KEY_SELECTOR = message(
  {
    key: [2, given(TEXT)],
    optional: [3, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const SECRET_KEY_SELECTOR = message(
  {
    key: [2, given(TEXT)],
    optional: [3, given(BOOL)],
  },
  { 1: LOCAL_OBJECT_REFERENCE },
);

const ENV_VAR_SOURCE = message({
  fieldRef: [1, OBJECT_FIELD_SELECTOR],
  resourceFieldRef: [2, RESOURCE_FIELD_SELECTOR],
  configMapKeyRef: [3, CONFIG_MAP_KEY_SELECTOR],
  secretKeyRef: [4, SECRET_KEY_SELECTOR],
});

const ENV_VAR = message({
  name: [1, given(TEXT)],
  value: [2, TEXT],
  valueFrom: [3, ENV_VAR_SOURCE],
});

const RESOURCE_CLAIM = message({
  name: [1, given(TEXT)],
  request: [2, TEXT],
});

export const RESOURCE_REQUIREMENTS = message({
  limits: [1, map(QUANTITY)],
  requests: [2, map(QUANTITY)],
  claims: [3, list(RESOURCE_CLAIM)],
});

const CONTAINER_RESIZE_POLICY = message({
  resourceName: [1, given(TEXT)],
  restartPolicy: [2, given(TEXT)],
});

const VOLUME_MOUNT = message({
  name: [1, given(TEXT)],
  readOnly: [2, BOOL],
  recursiveReadOnly: [7, given(TEXT)],
  mountPath: [3, given(TEXT)],
  subPath: [4, TEXT],
  mountPropagation: [5, given(TEXT)],
  subPathExpr: [6, TEXT],
});

const VOLUME_DEVICE = message({
  name: [1, given(TEXT)],
  devicePath: [2, given(TEXT)],
});

export const CONTAINER = message({
  name: [1, given(TEXT)],
  image: [2, TEXT],
  command: [3, list(TEXT)],
  args: [4, list(TEXT)],
  workingDir: [5, TEXT],
  ports: [6, list(CONTAINER_PORT)],
  envFrom: [19, list(ENV_FROM_SOURCE)],
  env: [7, list(ENV_VAR)],
  resources: [8, RESOURCE_REQUIREMENTS],
  resizePolicy: [23, list(CONTAINER_RESIZE_POLICY)],
  restartPolicy: [24, given(TEXT)],
  volumeMounts: [9, list(VOLUME_MOUNT)],
  volumeDevices: [21, list(VOLUME_DEVICE)],
  livenessProbe: [10, PROBE],
  readinessProbe: [11, PROBE],
  startupProbe: [22, PROBE],
  lifecycle: [12, LIFECYCLE],
  terminationMessagePath: [13, TEXT],
  terminationMessagePolicy: [20, TEXT],
  imagePullPolicy: [14, TEXT],
  securityContext: [15, SECURITY_CONTEXT],
  stdin: [16, BOOL],
  stdinOnce: [17, BOOL],
  tty: [18, BOOL],
});

export const EPHEMERAL_CONTAINER = message(
  {
    targetContainerName: [2, TEXT],
  },
  { 1: CONTAINER },
);

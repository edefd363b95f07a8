import { LOCAL_OBJECT_REFERENCE } from './messages-core.ts';
import { OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR } from './messages-volumes.ts';
import { INT_OR_STRING, QUANTITY } from './values.ts';
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

const EXEC_ACTION = message({
  command: [1, list(TEXT)],
});

const HTTP_HEADER = message({
  name: [1, given(TEXT)],
  value: [2, given(TEXT)],
});

const HTTP_GET_ACTION = message({
  path: [1, TEXT],
  port: [2, INT_OR_STRING],
  host: [3, TEXT],
  scheme: [4, TEXT],
  httpHeaders: [5, list(HTTP_HEADER)],
});

const TCP_SOCKET_ACTION = message({
  port: [1, INT_OR_STRING],
  host: [2, TEXT],
});

const GRPC_ACTION = message({
  port: [1, given(INT)],
  service: [2, given(TEXT)],
});

const PROBE_HANDLER = message({
  exec: [1, EXEC_ACTION],
  httpGet: [2, HTTP_GET_ACTION],
  tcpSocket: [3, TCP_SOCKET_ACTION],
  grpc: [4, GRPC_ACTION],
});

const PROBE = message(
  {
    initialDelaySeconds: [2, INT],
    timeoutSeconds: [3, INT],
    periodSeconds: [4, INT],
    successThreshold: [5, INT],
    failureThreshold: [6, INT],
    terminationGracePeriodSeconds: [7, given(INT)],
  },
  { 1: PROBE_HANDLER },
);

const SLEEP_ACTION = message({
  seconds: [1, given(INT)],
});

const LIFECYCLE_HANDLER = message({
  exec: [1, EXEC_ACTION],
  httpGet: [2, HTTP_GET_ACTION],
  tcpSocket: [3, TCP_SOCKET_ACTION],
  sleep: [4, SLEEP_ACTION],
});

const LIFECYCLE = message({
  postStart: [1, LIFECYCLE_HANDLER],
  preStop: [2, LIFECYCLE_HANDLER],
});

const CAPABILITIES = message({
  add: [1, list(TEXT)],
  drop: [2, list(TEXT)],
});

export const SE_LINUX_OPTIONS = message({
  user: [1, TEXT],
  role: [2, TEXT],
  type: [3, TEXT],
  level: [4, TEXT],
});

export const WINDOWS_SECURITY_CONTEXT_OPTIONS = message({
  gmsaCredentialSpecName: [1, given(TEXT)],
  gmsaCredentialSpec: [2, given(TEXT)],
  runAsUserName: [3, given(TEXT)],
  hostProcess: [4, given(BOOL)],
});

export const SECCOMP_PROFILE = message({
  type: [1, given(TEXT)],
  localhostProfile: [2, given(TEXT)],
});

export const APP_ARMOR_PROFILE = message({
  type: [1, given(TEXT)],
  localhostProfile: [2, given(TEXT)],
});

const SECURITY_CONTEXT = message({
  capabilities: [1, CAPABILITIES],
  privileged: [2, given(BOOL)],
  seLinuxOptions: [3, SE_LINUX_OPTIONS],
  windowsOptions: [10, WINDOWS_SECURITY_CONTEXT_OPTIONS],
  runAsUser: [4, given(INT)],
  runAsGroup: [8, given(INT)],
  runAsNonRoot: [5, given(BOOL)],
  readOnlyRootFilesystem: [6, given(BOOL)],
  allowPrivilegeEscalation: [7, given(BOOL)],
  procMount: [9, given(TEXT)],
  seccompProfile: [11, SECCOMP_PROFILE],
  appArmorProfile: [12, APP_ARMOR_PROFILE],
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

const EPHEMERAL_CONTAINER_COMMON = message({
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
  { 1: EPHEMERAL_CONTAINER_COMMON },
);

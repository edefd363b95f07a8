import { RESOURCE_REQUIREMENTS } from './messages-container.ts';
import { QUANTITY, TIME } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const POD_CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastProbeTime: [3, TIME],
  lastTransitionTime: [4, TIME],
  reason: [5, TEXT],
  message: [6, TEXT],
});

const HOST_IP = message({
  ip: [1, given(TEXT)],
});

const POD_IP = message({
  ip: [1, given(TEXT)],
});

const CONTAINER_STATE_WAITING = message({
  reason: [1, TEXT],
  message: [2, TEXT],
});

const CONTAINER_STATE_RUNNING = message({
  startedAt: [1, TIME],
});

const CONTAINER_STATE_TERMINATED = message({
  exitCode: [1, given(INT)],
  signal: [2, INT],
  reason: [3, TEXT],
  message: [4, TEXT],
  startedAt: [5, TIME],
  finishedAt: [6, TIME],
  containerID: [7, TEXT],
});

const CONTAINER_STATE = message({
  waiting: [1, CONTAINER_STATE_WAITING],
  running: [2, CONTAINER_STATE_RUNNING],
  terminated: [3, CONTAINER_STATE_TERMINATED],
});

const VOLUME_MOUNT_STATUS = message({
  name: [1, given(TEXT)],
  mountPath: [2, given(TEXT)],
  readOnly: [3, BOOL],
  recursiveReadOnly: [4, given(TEXT)],
});

const LINUX_CONTAINER_USER = message({
  uid: [1, given(INT)],
  gid: [2, given(INT)],
  supplementalGroups: [3, list(INT)],
});

const CONTAINER_USER = message({
  linux: [1, LINUX_CONTAINER_USER],
});

const RESOURCE_HEALTH = message({
  resourceID: [1, given(TEXT)],
  health: [2, TEXT],
});

const RESOURCE_STATUS = message({
  name: [1, given(TEXT)],
  resources: [2, list(RESOURCE_HEALTH)],
});

const CONTAINER_STATUS = message({
  name: [1, given(TEXT)],
  state: [2, CONTAINER_STATE],
  lastState: [3, CONTAINER_STATE],
  ready: [4, given(BOOL)],
  restartCount: [5, given(INT)],
  image: [6, given(TEXT)],
  imageID: [7, given(TEXT)],
  containerID: [8, TEXT],
  started: [9, given(BOOL)],
  allocatedResources: [10, map(QUANTITY)],
  resources: [11, RESOURCE_REQUIREMENTS],
  volumeMounts: [12, list(VOLUME_MOUNT_STATUS)],
  user: [13, CONTAINER_USER],
  allocatedResourcesStatus: [14, list(RESOURCE_STATUS)],
});

const POD_RESOURCE_CLAIM_STATUS = message({
  name: [1, given(TEXT)],
  resourceClaimName: [2, given(TEXT)],
});

export const POD_STATUS = message({
  phase: [1, TEXT],
  conditions: [2, list(POD_CONDITION)],
  message: [3, TEXT],
  reason: [4, TEXT],
  nominatedNodeName: [11, TEXT],
  hostIP: [5, TEXT],
  hostIPs: [16, list(HOST_IP)],
  podIP: [6, TEXT],
  podIPs: [12, list(POD_IP)],
  startTime: [7, TIME],
  initContainerStatuses: [10, list(CONTAINER_STATUS)],
  containerStatuses: [8, list(CONTAINER_STATUS)],
  qosClass: [9, TEXT],
  ephemeralContainerStatuses: [13, list(CONTAINER_STATUS)],
  resize: [14, TEXT],
  resourceClaimStatuses: [15, list(POD_RESOURCE_CLAIM_STATUS)],
});

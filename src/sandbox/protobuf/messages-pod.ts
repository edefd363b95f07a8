import { CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS } from './messages-container.ts';
import { LOCAL_OBJECT_REFERENCE } from './messages-core.ts';
import { OBJECT_META } from './messages-meta.ts';
import { POD_STATUS } from './messages-pod-status.ts';
import { AFFINITY, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT } from './messages-scheduling.ts';
import { POD_SECURITY_CONTEXT } from './messages-security.ts';
import { VOLUME } from './messages-volumes.ts';
import { QUANTITY } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const HOST_ALIAS = message({
  ip: [1, given(TEXT)],
  hostnames: [2, list(TEXT)],
});

const POD_DNS_CONFIG_OPTION = message({
  name: [1, TEXT],
  value: [2, given(TEXT)],
});

const POD_DNS_CONFIG = message({
  nameservers: [1, list(TEXT)],
  searches: [2, list(TEXT)],
  options: [3, list(POD_DNS_CONFIG_OPTION)],
});

const POD_READINESS_GATE = message({
  conditionType: [1, given(TEXT)],
});

const POD_OS = message({
  name: [1, given(TEXT)],
});

const POD_SCHEDULING_GATE = message({
  name: [1, given(TEXT)],
});

const POD_RESOURCE_CLAIM = message({
  name: [1, given(TEXT)],
  resourceClaimName: [3, given(TEXT)],
  resourceClaimTemplateName: [4, given(TEXT)],
});

const POD_SPEC = message({
  volumes: [1, list(VOLUME)],
  initContainers: [20, list(CONTAINER)],
  containers: [2, list(CONTAINER)],
  ephemeralContainers: [34, list(EPHEMERAL_CONTAINER)],
  restartPolicy: [3, TEXT],
  terminationGracePeriodSeconds: [4, given(INT)],
  activeDeadlineSeconds: [5, given(INT)],
  dnsPolicy: [6, TEXT],
  nodeSelector: [7, map(TEXT)],
  serviceAccountName: [8, TEXT],
  serviceAccount: [9, TEXT],
  automountServiceAccountToken: [21, given(BOOL)],
  nodeName: [10, TEXT],
  hostNetwork: [11, BOOL],
  hostPID: [12, BOOL],
  hostIPC: [13, BOOL],
  shareProcessNamespace: [27, given(BOOL)],
  securityContext: [14, POD_SECURITY_CONTEXT],
  imagePullSecrets: [15, list(LOCAL_OBJECT_REFERENCE)],
  hostname: [16, TEXT],
  subdomain: [17, TEXT],
  affinity: [18, AFFINITY],
  schedulerName: [19, TEXT],
  tolerations: [22, list(TOLERATION)],
  hostAliases: [23, list(HOST_ALIAS)],
  priorityClassName: [24, TEXT],
  priority: [25, given(INT)],
  dnsConfig: [26, POD_DNS_CONFIG],
  readinessGates: [28, list(POD_READINESS_GATE)],
  runtimeClassName: [29, given(TEXT)],
  enableServiceLinks: [30, given(BOOL)],
  preemptionPolicy: [31, given(TEXT)],
  overhead: [32, map(QUANTITY)],
  topologySpreadConstraints: [33, list(TOPOLOGY_SPREAD_CONSTRAINT)],
  setHostnameAsFQDN: [35, given(BOOL)],
  os: [36, POD_OS],
  hostUsers: [37, given(BOOL)],
  schedulingGates: [38, list(POD_SCHEDULING_GATE)],
  resourceClaims: [39, list(POD_RESOURCE_CLAIM)],
  resources: [40, RESOURCE_REQUIREMENTS],
  hostnameOverride: [41, given(TEXT)],
});

export const POD_TEMPLATE_SPEC = message({
  metadata: [1, OBJECT_META],
  spec: [2, POD_SPEC],
});

export const POD = message({
  metadata: [1, OBJECT_META],
  spec: [2, POD_SPEC],
  status: [3, POD_STATUS],
});

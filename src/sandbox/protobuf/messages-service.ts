import { OBJECT_REFERENCE } from './messages-core.ts';
import { CONDITION, OBJECT_META } from './messages-meta.ts';
import { INT_OR_STRING } from './values.ts';
import { BOOL, INT, TEXT, given, list, map, message } from './wire.ts';

const SERVICE_PORT = message({
  name: [1, TEXT],
  protocol: [2, TEXT],
  appProtocol: [6, given(TEXT)],
  port: [3, given(INT)],
  targetPort: [4, INT_OR_STRING],
  nodePort: [5, INT],
});

const CLIENT_IP_CONFIG = message({
  timeoutSeconds: [1, given(INT)],
});

const SESSION_AFFINITY_CONFIG = message({
  clientIP: [1, CLIENT_IP_CONFIG],
});

const SERVICE_SPEC = message({
  ports: [1, list(SERVICE_PORT)],
  selector: [2, map(TEXT)],
  clusterIP: [3, TEXT],
  clusterIPs: [18, list(TEXT)],
  type: [4, TEXT],
  externalIPs: [5, list(TEXT)],
  sessionAffinity: [7, TEXT],
  loadBalancerIP: [8, TEXT],
  loadBalancerSourceRanges: [9, list(TEXT)],
  externalName: [10, TEXT],
  externalTrafficPolicy: [11, TEXT],
  healthCheckNodePort: [12, INT],
  publishNotReadyAddresses: [13, BOOL],
  sessionAffinityConfig: [14, SESSION_AFFINITY_CONFIG],
  ipFamilies: [19, list(TEXT)],
  ipFamilyPolicy: [17, given(TEXT)],
  allocateLoadBalancerNodePorts: [20, given(BOOL)],
  loadBalancerClass: [21, given(TEXT)],
  internalTrafficPolicy: [22, given(TEXT)],
  trafficDistribution: [23, given(TEXT)],
});

const PORT_STATUS = message({
  port: [1, given(INT)],
  protocol: [2, given(TEXT)],
  error: [3, given(TEXT)],
});

const LOAD_BALANCER_INGRESS = message({
  ip: [1, TEXT],
  hostname: [2, TEXT],
  ipMode: [3, given(TEXT)],
  ports: [4, list(PORT_STATUS)],
});

const LOAD_BALANCER_STATUS = message({
  ingress: [1, list(LOAD_BALANCER_INGRESS)],
});

const SERVICE_STATUS = message({
  loadBalancer: [1, LOAD_BALANCER_STATUS],
  conditions: [2, list(CONDITION)],
});

export const SERVICE = message({
  metadata: [1, OBJECT_META],
  spec: [2, SERVICE_SPEC],
  status: [3, SERVICE_STATUS],
});

const ENDPOINT_ADDRESS = message({
  ip: [1, given(TEXT)],
  hostname: [3, TEXT],
  nodeName: [4, given(TEXT)],
  targetRef: [2, OBJECT_REFERENCE],
});

const ENDPOINT_PORT = message({
  name: [1, TEXT],
  port: [2, given(INT)],
  protocol: [3, TEXT],
  appProtocol: [4, given(TEXT)],
});

const ENDPOINT_SUBSET = message({
  addresses: [1, list(ENDPOINT_ADDRESS)],
  notReadyAddresses: [2, list(ENDPOINT_ADDRESS)],
  ports: [3, list(ENDPOINT_PORT)],
});

export const ENDPOINTS = message({
  metadata: [1, OBJECT_META],
  subsets: [2, list(ENDPOINT_SUBSET)],
});

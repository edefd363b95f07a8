import { LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { INT_OR_STRING } from './values.ts';
import { INT, TEXT, given, list, message } from './wire.ts';

const NETWORK_POLICY_PORT = message({
  protocol: [1, given(TEXT)],
  port: [2, given(INT_OR_STRING)],
  endPort: [3, given(INT)],
});

const IP_BLOCK = message({
  cidr: [1, given(TEXT)],
  except: [2, list(TEXT)],
});

const NETWORK_POLICY_PEER = message({
  podSelector: [1, LABEL_SELECTOR],
  namespaceSelector: [2, LABEL_SELECTOR],
  ipBlock: [3, IP_BLOCK],
});

const NETWORK_POLICY_INGRESS_RULE = message({
  ports: [1, list(NETWORK_POLICY_PORT)],
  from: [2, list(NETWORK_POLICY_PEER)],
});

const NETWORK_POLICY_EGRESS_RULE = message({
  ports: [1, list(NETWORK_POLICY_PORT)],
  to: [2, list(NETWORK_POLICY_PEER)],
});

const NETWORK_POLICY_SPEC = message({
  podSelector: [1, LABEL_SELECTOR],
  ingress: [2, list(NETWORK_POLICY_INGRESS_RULE)],
  egress: [3, list(NETWORK_POLICY_EGRESS_RULE)],
  policyTypes: [4, list(TEXT)],
});

export const NETWORK_POLICY = message({
  metadata: [1, OBJECT_META],
  spec: [2, NETWORK_POLICY_SPEC],
});

import { LABEL_SELECTOR } from './messages-meta.ts';
import { INT, TEXT, given, list, message } from './wire.ts';

const NODE_SELECTOR_REQUIREMENT = message({
  key: [1, given(TEXT)],
  operator: [2, given(TEXT)],
  values: [3, list(TEXT)],
});

const NODE_SELECTOR_TERM = message({
  matchExpressions: [1, list(NODE_SELECTOR_REQUIREMENT)],
  matchFields: [2, list(NODE_SELECTOR_REQUIREMENT)],
});

const NODE_SELECTOR = message({
  nodeSelectorTerms: [1, list(NODE_SELECTOR_TERM)],
});

const PREFERRED_SCHEDULING_TERM = message({
  weight: [1, given(INT)],
  preference: [2, NODE_SELECTOR_TERM],
});

const NODE_AFFINITY = message({
  requiredDuringSchedulingIgnoredDuringExecution: [1, NODE_SELECTOR],
  preferredDuringSchedulingIgnoredDuringExecution: [2, list(PREFERRED_SCHEDULING_TERM)],
});

const POD_AFFINITY_TERM = message({
  labelSelector: [1, LABEL_SELECTOR],
  namespaces: [2, list(TEXT)],
  topologyKey: [3, given(TEXT)],
  namespaceSelector: [4, LABEL_SELECTOR],
  matchLabelKeys: [5, list(TEXT)],
  mismatchLabelKeys: [6, list(TEXT)],
});

const WEIGHTED_POD_AFFINITY_TERM = message({
  weight: [1, given(INT)],
  podAffinityTerm: [2, POD_AFFINITY_TERM],
});

const POD_AFFINITY = message({
  requiredDuringSchedulingIgnoredDuringExecution: [1, list(POD_AFFINITY_TERM)],
  preferredDuringSchedulingIgnoredDuringExecution: [2, list(WEIGHTED_POD_AFFINITY_TERM)],
});

const POD_ANTI_AFFINITY = message({
  requiredDuringSchedulingIgnoredDuringExecution: [1, list(POD_AFFINITY_TERM)],
  preferredDuringSchedulingIgnoredDuringExecution: [2, list(WEIGHTED_POD_AFFINITY_TERM)],
});

export const AFFINITY = message({
  nodeAffinity: [1, NODE_AFFINITY],
  podAffinity: [2, POD_AFFINITY],
  podAntiAffinity: [3, POD_ANTI_AFFINITY],
});

export const TOLERATION = message({
  key: [1, TEXT],
  operator: [2, TEXT],
  value: [3, TEXT],
  effect: [4, TEXT],
  tolerationSeconds: [5, given(INT)],
});

export const TOPOLOGY_SPREAD_CONSTRAINT = message({
  maxSkew: [1, given(INT)],
  topologyKey: [2, given(TEXT)],
  whenUnsatisfiable: [3, given(TEXT)],
  labelSelector: [4, LABEL_SELECTOR],
  minDomains: [5, given(INT)],
  nodeAffinityPolicy: [6, given(TEXT)],
  nodeTaintsPolicy: [7, given(TEXT)],
  matchLabelKeys: [8, list(TEXT)],
});

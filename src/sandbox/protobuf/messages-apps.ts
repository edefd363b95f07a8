import { LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { POD_TEMPLATE_SPEC } from './messages-pod.ts';
import { INT_OR_STRING, TIME } from './values.ts';
import { BOOL, INT, TEXT, given, list, message } from './wire.ts';

const ROLLING_UPDATE_DEPLOYMENT = message({
  maxUnavailable: [1, given(INT_OR_STRING)],
  maxSurge: [2, given(INT_OR_STRING)],
});

const DEPLOYMENT_STRATEGY = message({
  type: [1, TEXT],
  rollingUpdate: [2, ROLLING_UPDATE_DEPLOYMENT],
});

const DEPLOYMENT_SPEC = message({
  replicas: [1, given(INT)],
  selector: [2, LABEL_SELECTOR],
  template: [3, POD_TEMPLATE_SPEC],
  strategy: [4, DEPLOYMENT_STRATEGY],
  minReadySeconds: [5, INT],
  revisionHistoryLimit: [6, given(INT)],
  paused: [7, BOOL],
  progressDeadlineSeconds: [9, given(INT)],
});

const DEPLOYMENT_CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastUpdateTime: [6, TIME],
  lastTransitionTime: [7, TIME],
  reason: [4, TEXT],
  message: [5, TEXT],
});

const DEPLOYMENT_STATUS = message({
  observedGeneration: [1, INT],
  replicas: [2, INT],
  updatedReplicas: [3, INT],
  readyReplicas: [7, INT],
  availableReplicas: [4, INT],
  unavailableReplicas: [5, INT],
  conditions: [6, list(DEPLOYMENT_CONDITION)],
  collisionCount: [8, given(INT)],
});

export const DEPLOYMENT = message({
  metadata: [1, OBJECT_META],
  spec: [2, DEPLOYMENT_SPEC],
  status: [3, DEPLOYMENT_STATUS],
});

const REPLICA_SET_SPEC = message({
  replicas: [1, given(INT)],
  minReadySeconds: [4, INT],
  selector: [2, LABEL_SELECTOR],
  template: [3, POD_TEMPLATE_SPEC],
});

const REPLICA_SET_CONDITION = message({
  type: [1, given(TEXT)],
  status: [2, given(TEXT)],
  lastTransitionTime: [3, TIME],
  reason: [4, TEXT],
  message: [5, TEXT],
});

const REPLICA_SET_STATUS = message({
  replicas: [1, given(INT)],
  fullyLabeledReplicas: [2, INT],
  readyReplicas: [4, INT],
  availableReplicas: [5, INT],
  observedGeneration: [3, INT],
  conditions: [6, list(REPLICA_SET_CONDITION)],
});

export const REPLICA_SET = message({
  metadata: [1, OBJECT_META],
  spec: [2, REPLICA_SET_SPEC],
  status: [3, REPLICA_SET_STATUS],
});

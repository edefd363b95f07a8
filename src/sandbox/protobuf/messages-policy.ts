import { CONDITION, LABEL_SELECTOR, OBJECT_META } from './messages-meta.ts';
import { INT_OR_STRING, TIME } from './values.ts';
import { INT, TEXT, given, list, map, message } from './wire.ts';

const POD_DISRUPTION_BUDGET_SPEC = message({
  minAvailable: [1, given(INT_OR_STRING)],
  selector: [2, LABEL_SELECTOR],
  maxUnavailable: [3, given(INT_OR_STRING)],
  unhealthyPodEvictionPolicy: [4, given(TEXT)],
});

const POD_DISRUPTION_BUDGET_STATUS = message({
  observedGeneration: [1, INT],
  disruptedPods: [2, map(TIME)],
  disruptionsAllowed: [3, given(INT)],
  currentHealthy: [4, given(INT)],
  desiredHealthy: [5, given(INT)],
  expectedPods: [6, given(INT)],
  conditions: [7, list(CONDITION)],
});

export const POD_DISRUPTION_BUDGET = message({
  metadata: [1, OBJECT_META],
  spec: [2, POD_DISRUPTION_BUDGET_SPEC],
  status: [3, POD_DISRUPTION_BUDGET_STATUS],
});

import { LABEL_SELECTOR, NOTHING, OBJECT_META } from './messages-meta.ts';
import { INT_OR_STRING } from './values.ts';
import { given, message } from './wire.ts';

const POD_DISRUPTION_BUDGET_SPEC = message({
  minAvailable: [1, given(INT_OR_STRING)],
  selector: [2, LABEL_SELECTOR],
  maxUnavailable: [3, given(INT_OR_STRING)],
});

export const POD_DISRUPTION_BUDGET = message({
  metadata: [1, OBJECT_META],
  spec: [2, POD_DISRUPTION_BUDGET_SPEC],
  status: [3, NOTHING],
});

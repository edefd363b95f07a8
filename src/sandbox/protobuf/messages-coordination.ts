import { OBJECT_META } from './messages-meta.ts';
import { MICRO_TIME } from './values.ts';
import { INT, TEXT, given, message } from './wire.ts';

const LEASE_SPEC = message({
  holderIdentity: [1, given(TEXT)],
  leaseDurationSeconds: [2, given(INT)],
  acquireTime: [3, MICRO_TIME],
  renewTime: [4, MICRO_TIME],
  leaseTransitions: [5, given(INT)],
  strategy: [6, given(TEXT)],
  preferredHolder: [7, given(TEXT)],
});

export const LEASE = message({
  metadata: [1, OBJECT_META],
  spec: [2, LEASE_SPEC],
});

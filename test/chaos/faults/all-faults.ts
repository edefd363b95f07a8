import { caRotation, policyChanges } from './changes.ts';
import { apiServerRestart, etcdRestart } from './control-plane.ts';
import type { Fault } from './fault.ts';
import { memoryPressure } from './memory.ts';
import { cutLeader, killAny, killLeader, rollingRestart, wrongClock } from './replicas.ts';
import { restoreWindow } from './restore.ts';

/**
 * In the order in which they come. Those that leave writes behind of which nobody knows what became of them are first: their
 * claims to unique values are kept for 70 s. The rolling restart ends the replicas that have little memory.
 */
export const ALL_FAULTS: readonly Fault[] = [
  apiServerRestart,
  etcdRestart,
  killLeader,
  killAny,
  cutLeader,
  memoryPressure,
  rollingRestart,
  wrongClock,
  caRotation,
  policyChanges,
  restoreWindow,
];

import { noControllers, noWebhooks } from './absent.ts';
import { caRotation, policyChanges } from './changes.ts';
import { apiServerRestart, etcdRestart } from './control-plane.ts';
import type { Fault } from './fault.ts';
import { memoryPressure } from './memory.ts';
import { cutLeader, killAny, killLeader, rollingRestart, wrongClock } from './replicas.ts';
import { restoreWindow } from './restore.ts';

/**
 * The order of execution. Faults that leave writes with an unknown result come first: the claims of these writes last
 * for 70 s. The rolling restart replaces the replicas with little memory.
 */
export const ALL_FAULTS: readonly Fault[] = [
  apiServerRestart,
  etcdRestart,
  killLeader,
  killAny,
  cutLeader,
  noControllers,
  noWebhooks,
  memoryPressure,
  rollingRestart,
  wrongClock,
  caRotation,
  policyChanges,
  restoreWindow,
];

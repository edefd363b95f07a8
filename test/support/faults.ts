/**
 * The fault harness: proxies that inject faults of networks and API servers between Gatehouse and a cluster,
 * reproducible by seed.
 */
export { startApiProxy, type ApiProxy, type Asked } from './api-proxy.ts';
export {
  chanceFor,
  createFaultPlan,
  faultSeed,
  runFaultPlan,
  underSeed,
  type Begin,
  type PlannedFault,
} from './faults/plan.ts';
export type { Fault } from './faults/request-faults.ts';
export { apiServerOf, kubeconfigsThrough, startTcpFaults, type Side, type TcpFaults } from './faults/tcp.ts';
export type { WatchFault } from './faults/watch-faults.ts';

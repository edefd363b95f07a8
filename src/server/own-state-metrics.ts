/** Metrics of what Gatehouse keeps in the cluster for itself. */
import { Counter, type Registry } from 'prom-client';

export interface OwnStateMetrics {
  /** The cluster went back in time. @param evidence what showed it */
  readonly rollback: (evidence: 'Epoch' | 'ResourceVersion' | 'Told') => void;
}

export function createOwnStateMetrics(registers: Registry[]): OwnStateMetrics {
  const rollbacks = new Counter({
    name: 'gatehouse_rollbacks_detected_total',
    help: 'How often this replica saw that the cluster went back in time, by evidence.',
    labelNames: ['evidence'],
    registers,
  });
  return {
    rollback: (evidence) => {
      rollbacks.inc({ evidence });
    },
  };
}

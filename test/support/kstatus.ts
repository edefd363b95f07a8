/**
 * The rules of kstatus (sigs.k8s.io/cli-utils/pkg/kstatus) for custom resources. Flux, Helm and kpt decide with them whether an
 * object is in force.
 */
import type { Condition, KubeObject } from '../../src/json/kube-object.ts';

export type KStatus = 'Current' | 'Failed' | 'InProgress' | 'Terminating';

export interface WithStatus extends KubeObject {
  readonly status?:
    | {
        readonly observedGeneration?: number | undefined;
        readonly conditions?: readonly Condition[] | undefined;
      }
    | undefined;
}

export function kstatus({ metadata, status = {} }: WithStatus): KStatus {
  if (metadata?.deletionTimestamp !== undefined) return 'Terminating';
  const { observedGeneration, conditions = [] } = status;
  if (observedGeneration !== undefined && observedGeneration !== metadata?.generation) return 'InProgress';
  for (const { type, status: is } of conditions) {
    if (type === 'Reconciling' && is === 'True') return 'InProgress';
    if (type === 'Stalled' && is === 'True') return 'Failed';
  }
  const ready = conditions.find(({ type }) => type === 'Ready');
  return ready === undefined || ready.status === 'True' ? 'Current' : 'InProgress';
}

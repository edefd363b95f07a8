import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { RESTART_ON_RENEWAL, RESTARTED_FOR } from '../../pki/annotations.ts';

export interface Workload extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly paused?: boolean;
    readonly selector?: unknown;
    readonly template?: { readonly metadata?: ObjectMeta };
    readonly updateStrategy?: {
      readonly type?: string;
      readonly rollingUpdate?: { readonly partition?: number };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly desiredNumberScheduled?: number;
    readonly updatedNumberScheduled?: number;
    readonly numberAvailable?: number;
  };
}

type RestartPlan =
  | { readonly kind: 'ignore' }
  | { readonly kind: 'restart' }
  /** `why` is for users. A restart is possible later without a change, or its owner must act. */
  | { readonly kind: 'wait' | 'refuse'; readonly why: string };

/** @param isDone whether this process has restarted it for this leaf */
export function planRestart(workload: Workload, leaf: string, isDone: boolean): RestartPlan {
  const { metadata = {}, spec = {} } = workload;
  const asked = metadata.annotations?.[RESTART_ON_RENEWAL] ?? 'false';
  if (asked === 'false' || metadata.deletionTimestamp !== undefined) return { kind: 'ignore' };
  if (asked !== 'true') return refuse(`${RESTART_ON_RENEWAL} must be "true" or "false"`);
  if (isRollingOut(workload))
    return { kind: 'wait', why: 'not all of its pods are up to date and available' };
  if (isDone || restartsOf(workload).includes(idOf(leaf)))
    return refuse(
      'a restart for this certificate did not help: check that the server reads the Secret, and that the Service has its own certificate',
    );
  if (spec.paused === true) return { kind: 'wait', why: 'its rollout is paused' };
  const { type, rollingUpdate } = spec.updateStrategy ?? {};
  if (type === 'OnDelete' || (rollingUpdate?.partition ?? 0) > 0)
    return refuse('its update strategy does not replace all pods: restart them yourself');
  return { kind: 'restart' };
}

const refuse = (why: string): RestartPlan => ({ kind: 'refuse', why });

/** As `kubectl rollout status` decides. An unhealthy workload also counts: a restart could take its last pods. */
export function isRollingOut({ metadata = {}, spec = {}, status = {} }: Workload): boolean {
  const wanted = status.desiredNumberScheduled ?? spec.replicas ?? 1;
  const updated = status.updatedNumberScheduled ?? status.updatedReplicas ?? 0;
  const available = status.numberAvailable ?? status.availableReplicas ?? status.readyReplicas ?? 0;
  const isObserved = (status.observedGeneration ?? 0) >= (metadata.generation ?? 0);
  return !isObserved || updated < wanted || available < wanted || (status.replicas ?? updated) > updated;
}

/** `kubectl rollout restart` sets it, so diff tools and users know it. */
const RESTARTED_AT = 'kubectl.kubernetes.io/restartedAt';
/** Several Services with a certificate each may select one workload. */
const MAX_RECORDED = 16;

/** A merge patch. It fails if the workload has changed since it was read. */
export function restartPatch(workload: Workload, leaf: string, now: Date): object {
  const { resourceVersion } = workload.metadata ?? {};
  if (resourceVersion === undefined) throw new Error('the workload lacks a resourceVersion: read it first');
  const restartedFor = [idOf(leaf), ...restartsOf(workload)].slice(0, MAX_RECORDED).join(',');
  const record = { [RESTARTED_FOR]: restartedFor };
  return {
    metadata: { resourceVersion, annotations: record },
    spec: { template: { metadata: { annotations: { ...record, [RESTARTED_AT]: now.toISOString() } } } },
  };
}

/** A GitOps tool may remove the record of the workload. Such tools often leave the pod template alone, because of `restartedAt`. */
const restartsOf = ({ metadata, spec }: Workload): readonly string[] => {
  const records = [metadata, spec?.template?.metadata].map(
    (meta) => meta?.annotations?.[RESTARTED_FOR] ?? '',
  );
  return [...new Set(records.join(',').split(','))].filter((id) => id !== '');
};

const idOf = (leaf: string): string => leaf.slice(0, 16);

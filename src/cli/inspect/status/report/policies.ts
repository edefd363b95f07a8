/** AdmissionPolicies: whether they are in force, and what violates them. */
import type { AdmissionPolicy } from '../../../../api/admission-policy.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface AdmissionPoliciesPart {
  readonly unread: readonly Unread[];
  /** By name. */
  readonly items: readonly PolicyRow[];
}

export interface PolicyRow {
  readonly name: string;
  readonly enforcement: 'Deny' | 'Warn' | 'Audit';
  readonly ready: ConditionStatus;
  readonly webhooksInstalled: ConditionStatus;
  /** Among what is stored; undefined where nobody has counted. */
  readonly violations?: number;
  /** When they were counted (RFC 3339). */
  readonly checkedAt?: string;
  /** What is wrong, where something is. */
  readonly message?: string;
}

/** `Unknown` also where the leader has not judged this generation yet. */
export type ConditionStatus = 'True' | 'False' | 'Unknown';

export function admissionPoliciesPart(
  policies: Reading<readonly AdmissionPolicy[]>,
): Judged<AdmissionPoliciesPart> {
  const items = (valueOf(policies) ?? []).map(rowOf).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    part: { unread: unreadOf('AdmissionPolicies', policies), items },
    attention: items.flatMap(attentionOf),
  };
}

function rowOf(policy: AdmissionPolicy): PolicyRow {
  const { metadata, spec, status } = policy;
  const ready = judged(policy, 'Ready');
  const webhooksInstalled = judged(policy, 'WebhooksInstalled');
  const message = [ready, webhooksInstalled].find(({ status: is }) => is !== 'True')?.message;
  const { total, checkedAt } = status?.violations ?? {};
  return {
    name: metadata.name ?? '',
    enforcement: spec.enforcement ?? 'Deny',
    ready: ready.status,
    webhooksInstalled: webhooksInstalled.status,
    ...(total === undefined ? {} : { violations: total }),
    ...(checkedAt === undefined ? {} : { checkedAt }),
    ...(message === undefined ? {} : { message }),
  };
}

function judged(
  { metadata, status }: AdmissionPolicy,
  type: string,
): { readonly status: ConditionStatus; readonly message: string } {
  const condition = status?.conditions?.find((one) => one.type === type);
  const { generation } = metadata;
  if (condition === undefined || (condition.observedGeneration ?? generation) !== generation)
    return { status: 'Unknown', message: 'no leader has judged it as it is now: look who leads' };
  return condition;
}

function attentionOf({ name, message }: PolicyRow): readonly Attention[] {
  if (message === undefined) return [];
  return [{ part: 'admissionPolicies', object: `AdmissionPolicy ${name}`, message }];
}

/** One judge per check: what the webhook leaves to the API server, once that is confirmed to enforce it. */
import { isPrincipal, type Principal } from '../../api/principals.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import { valueIn } from '../../json/json.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { NativeCheck } from './native-check.ts';

/** What the leader has confirmed, in the status of an AdmissionPolicy. */
export type Confirmation = NonNullable<AdmissionPolicyStatus['confirmed']>;

/** The checks of a version that the webhook leaves to the API server. */
export interface Release {
  /** The version. */
  readonly policy: CompiledPolicy;
  /** The version without these checks. */
  readonly remaining: CompiledPolicy;
  /** Of the compiled policy. */
  readonly digest: string;
  /** The API server leaves their requests to the webhook. */
  readonly restorers: readonly Principal[];
}

export type ReleaseOf = (policy: CompiledPolicy) => Release | undefined;

export const NO_RELEASES: ReleaseOf = () => undefined;

/** One stored version of an object: its status and its labels do not count. */
export const versionOf = ({ metadata = {} }: KubeObject): string => `${metadata.uid}/${metadata.generation}`;

/** The policy without the checks that the API server enforces. */
export function withoutNative(policy: CompiledPolicy, checks: readonly NativeCheck[]): CompiledPolicy {
  const native = new Set(checks.flatMap(({ check, by }) => (by === 'APIServer' ? [check] : [])));
  const { schema, immutable, rules, warnings, auditAnnotations } = policy;
  return {
    ...policy,
    schema: native.has('schema') ? undefined : schema,
    immutable: immutable.filter(({ path }) => !native.has(`immutable ${path.text}`)),
    rules: rules.filter(({ name }) => !native.has(`rule ${name}`)),
    warnings: native.has('warnings') ? [] : warnings,
    auditAnnotations: auditAnnotations.filter(({ key }) => !native.has(`audit annotation ${key}`)),
  };
}

/** The API server asks no admission policy about these groups, in part. */
const EXEMPT_GROUPS = ['admissionregistration.k8s.io', 'authentication.k8s.io', 'authorization.k8s.io'];

/** The part of the policy that the webhook judges for this request. */
export function judgedByWebhook(
  policy: CompiledPolicy,
  release: Release | undefined,
  { resource, oldObject, userInfo }: Pick<AdmissionRequest, 'resource' | 'oldObject' | 'userInfo'>,
): CompiledPolicy {
  if (release === undefined) return policy;
  const isLeft =
    EXEMPT_GROUPS.includes(resource.group) ||
    valueIn(oldObject, 'metadata', 'deletionTimestamp') !== undefined ||
    isPrincipal(release.restorers, userInfo);
  return isLeft ? policy : release.remaining;
}

/** Whether the policy may govern resources that the API server exempts from admission policies. */
export const governsExempt = ({ match: { apiGroups } }: CompiledPolicy): boolean =>
  apiGroups.some((group) => group === '*' || EXEMPT_GROUPS.includes(group));

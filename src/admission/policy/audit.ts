import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import { auditUnique } from './audit-unique.ts';
import { missingTarget } from './references/check-references.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { judge } from './judge.ts';
import { isJsonObject } from '../../json/json.ts';
import { createLiveLookup } from './references/confirm-targets.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { Circumstances } from './world.ts';

/** What is wrong with a stored object, or why nobody can tell. */
export type Audited =
  | { readonly kind: 'judged'; readonly violations: readonly Violation[] }
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** The policy without what only a request has: users, old objects, warnings. */
export function forAudit(policy: CompiledPolicy): CompiledPolicy {
  return {
    ...policy,
    immutable: [],
    warnings: [],
    auditAnnotations: [],
    rules: policy.rules.filter(({ expression: { reads } }) => !reads.oldObject && !reads.request),
  };
}

/** Whether an audit by this policy could find anything. */
export const hasAudit = ({ audit, references, unique, rules, schema }: CompiledPolicy): boolean =>
  audit && (references.length > 0 || unique.length > 0 || rules.length > 0 || schema !== undefined);

/**
 * Judges a stored object as if it were created now. As always, the stores may acquit; what they would convict is read again.
 *
 * @param policy one of {@link forAudit}
 */
export async function auditObject(
  policy: CompiledPolicy,
  resource: GroupResource,
  object: KubeObject,
  circumstances: Circumstances,
): Promise<Audited> {
  const { violations, unseen, unreadable } = await judge(policy, asCreated(resource, object), circumstances);
  if (unreadable !== undefined) return { kind: 'unknown', cause: unreadable };
  let shared: readonly Violation[];
  try {
    shared = await auditUnique(policy, resource, object, circumstances);
  } catch (cause) {
    return { kind: 'unknown', cause };
  }
  if (unseen.length === 0) return { kind: 'judged', violations: [...violations, ...shared] };
  const looked = await createLiveLookup(circumstances.world, circumstances.signal)(unseen);
  if (looked.unknown.length > 0) return { kind: 'unknown', cause: looked.cause };
  return { kind: 'judged', violations: [...violations, ...shared, ...looked.missing.map(missingTarget)] };
}

/** A request that would create a stored object as it is, by nobody. */
export function asCreated({ group, resource }: GroupResource, object: KubeObject): AdmissionRequest {
  const { apiVersion = '', kind = '', metadata } = object;
  const version = apiVersion.slice(apiVersion.indexOf('/') + 1);
  const gvk = { group, version, kind };
  const gvr = { group, version, resource };
  const asJson: unknown = object;
  return {
    uid: metadata?.uid ?? '',
    kind: gvk,
    resource: gvr,
    subResource: '',
    requestKind: gvk,
    requestResource: gvr,
    name: metadata?.name,
    namespace: metadata?.namespace,
    operation: 'CREATE',
    userInfo: { username: '', uid: '', groups: [], extra: {} },
    object: isJsonObject(asJson) ? asJson : undefined,
    oldObject: undefined,
    dryRun: true,
    options: undefined,
  };
}

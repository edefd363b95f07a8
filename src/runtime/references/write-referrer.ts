/** Deletes or changes one version of an object that names a deleted target. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { ReferrerPlan } from '../../admission/policy/references/plan-referrer.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import { ApiError, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served, versionAmong } from '../policies/world.ts';

export type WriteOutcome =
  | { readonly kind: 'deleted' }
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** The object has changed in the meantime. */
  | { readonly kind: 'changed' }
  /** The API server refuses the write. */
  | { readonly kind: 'refused'; readonly message: string };

/** @throws if the outcome is unknown */
export type WriteReferrer = (
  ref: ObjectRef,
  object: KubeObject,
  plan: Extract<ReferrerPlan, { kind: 'delete' | 'patch' }>,
  policy: CompiledPolicy,
  signal: AbortSignal,
) => Promise<WriteOutcome>;

const FIELD_MANAGER = 'gatehouse-references';

export function createWriteReferrer(
  client: Pick<KubeClient, 'delete' | 'patchJson' | 'getMetadata'>,
  discovery: Pick<Discovery, 'resolve'>,
): WriteReferrer {
  return async (ref, object, plan, policy, signal) => {
    const kind = await served(discovery, ref, signal);
    try {
      if (plan.kind === 'delete') {
        const { uid, resourceVersion } = plan;
        const preconditions = { uid, resourceVersion };
        await client.delete(kind, ref, { preconditions, propagationPolicy: 'Background', signal });
        return { kind: 'deleted' };
      }
      const versioned = { ...kind, version: versionAmong(policy.match.apiVersions, kind.version) };
      const options = { fieldManager: FIELD_MANAGER, signal };
      const patched = await client.patchJson<KubeObject>(versioned, ref, plan.operations, options);
      return { kind: 'patched', object: patched };
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return { kind: 'changed' };
      if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 422)) throw error;
      // 422 is a failed `test`, or a value that the API server rejects.
      const live = error.code === 422 ? await client.getMetadata(kind, ref, { signal }) : object;
      const isCurrent = live?.metadata?.resourceVersion === object.metadata?.resourceVersion;
      return isCurrent ? { kind: 'refused', message: error.message } : { kind: 'changed' };
    }
  };
}

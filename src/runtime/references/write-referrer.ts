/** Deletes or changes one version of an object that names a deleted target. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { ReferrerPlan } from '../../admission/policy/references/plan-referrer.ts';
import { groupResourceName, type KubeObject, type ObjectRef } from '../../json/kube-object.ts';
import { ApiError, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served, versionAmong } from '../policies/world.ts';

export type Outcome =
  | { readonly kind: 'done' }
  /** The object needs nothing. */
  | { readonly kind: 'left' }
  /** The object has changed in the meantime. */
  | { readonly kind: 'again' }
  /** The API server refuses the write. */
  | { readonly kind: 'stuck'; readonly object: KubeObject; readonly message: string };

/** @throws if the outcome is unknown */
export type WriteReferrer = (
  ref: ObjectRef,
  object: KubeObject,
  plan: Exclude<ReferrerPlan, { kind: 'leave' }>,
  policy: CompiledPolicy,
  signal: AbortSignal,
) => Promise<Outcome>;

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
      } else {
        const version = versionAmong(policy.match.apiVersions, kind.version);
        await client.patchJson({ ...kind, version }, ref, plan.operations, {
          fieldManager: FIELD_MANAGER,
          signal,
        });
      }
      return { kind: 'done' };
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return { kind: 'again' };
      if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 422)) throw error;
      // 422 is a failed `test`, or a value that the API server rejects.
      const live = error.code === 422 ? await client.getMetadata(kind, ref, { signal }) : object;
      if (live?.metadata?.resourceVersion !== object.metadata?.resourceVersion) return { kind: 'again' };
      return { kind: 'stuck', object, message: `${groupResourceName(ref)} "${ref.name}": ${error.message}` };
    }
  };
}

/** A JSON Patch that tests the version of the object. */
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { JsonPatchOperation } from '../../json/json-patch.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served } from '../policies/world.ts';

export type PatchGuarded = (
  ref: ObjectRef,
  operations: readonly JsonPatchOperation[],
  signal: AbortSignal,
) => Promise<PatchOutcome>;

export type PatchOutcome =
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** The object has changed or was deleted: nothing was written. */
  | { readonly kind: 'changed'; readonly message: string }
  /** Gatehouse lacks the permission; the message comes from the API server. */
  | { readonly kind: 'forbidden'; readonly message: string };

export function createPatch(
  client: Pick<KubeClient, 'patchJson'>,
  discovery: Pick<Discovery, 'resolve'>,
  fieldManager: string,
): PatchGuarded {
  return async (ref, operations, signal): Promise<PatchOutcome> => {
    const resource = await served(discovery, ref, signal);
    try {
      const object = await client.patchJson<KubeObject>(resource, ref, operations, { fieldManager, signal });
      return { kind: 'patched', object };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // 422 is a failed `test`, or an owner that the API server rejects.
      if ([404, 409, 422].includes(error.code)) return { kind: 'changed', message: error.message };
      if (error.code === 403) return { kind: 'forbidden', message: error.message };
      throw error;
    }
  };
}

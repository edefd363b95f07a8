import type { ObjectRef } from '../../../json/kube-object.ts';
import { namespaceRefOf } from '../object-ref.ts';
import type { AdmissionContext } from '../world.ts';

/**
 * The namespace controller deletes the objects of a namespace in any order, so a reference between them must not block
 * it.
 */
export async function isInTerminatingNamespace(
  { namespace }: ObjectRef,
  target: ObjectRef,
  { read }: AdmissionContext['world'],
  signal: AbortSignal,
): Promise<boolean> {
  if (namespace === undefined || namespace !== target.namespace) return false;
  const found = await read(namespaceRefOf(namespace), signal);
  return found === undefined || found.metadata?.deletionTimestamp !== undefined;
}

import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import { NAMESPACES } from '../compile-targets.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { isJsonObject } from '../../../json/json.ts';
import { isInScope } from './object-scope.ts';
import { heldKeys } from '../unique/unique-key.ts';
import type { World } from '../world.ts';

/** Whether the policy selects a stored object as it is now. Throws when the API server does not say. */
export async function isGovernedNow(
  policy: Pick<CompiledPolicy, 'match'>,
  object: KubeObject,
  { read }: Pick<World, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  const namespace = object.metadata?.namespace;
  const { matchLabels = {}, matchExpressions = [] } = policy.match.namespaceSelector;
  const selects = Object.keys(matchLabels).length > 0 || matchExpressions.length > 0;
  if (namespace === undefined || !selects) return isInScope(policy, object, new Map());
  const found = await read({ ...NAMESPACES, namespace: undefined, name: namespace }, signal);
  return isInScope(policy, object, new Map([[namespace, found?.metadata?.labels ?? {}]]));
}

/** Whether a stored object holds the key of this claim by a rule of the policy. Throws as {@link isGovernedNow}. */
export async function holdsNow(
  policy: Pick<CompiledPolicy, 'name' | 'unique' | 'match'>,
  claim: string,
  ref: ObjectRef,
  object: KubeObject | undefined,
  world: Pick<World, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isJsonObject(object)) return false;
  if (!heldKeys(policy, object, ref).some((key) => key.claim === claim)) return false;
  return await isGovernedNow(policy, object, world, signal);
}

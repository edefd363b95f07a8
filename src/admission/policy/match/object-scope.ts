import { type CelProgram, onCelError } from '../../../cel/cel.ts';
import { isDnsLabel, isObjectName, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { matchesSelector } from '../../../json/label-selector.ts';
import { labelsOf } from '../object-metadata.ts';
import { namespaceRefOf } from '../object-ref.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { isJsonObject, type JsonObject } from '../../../json/json.ts';
import { heldKeys } from '../unique/unique-key.ts';
import type { ObjectReads } from '../world.ts';

/** A forged claim can reference any object as its holder, and a failing read would block the values. */
export const canGovern = (
  { match }: Pick<CompiledPolicy, 'match'>,
  { group, resource, namespace, name }: ObjectRef,
): boolean =>
  match.resources.includes(resource) &&
  match.apiGroups.includes(group) &&
  isObjectName({ group, resource }, name) &&
  (namespace === undefined || isDnsLabel(namespace));

export type NamespaceLabels = ReadonlyMap<string, Readonly<Record<string, string>>>;

/** Whether the policy selects a stored object, by the same rules as the API server for a request. */
export function isInScope(
  { match }: Pick<CompiledPolicy, 'match'>,
  object: KubeObject,
  namespaces: NamespaceLabels,
): boolean {
  const { metadata } = object;
  const namespaceLabels =
    metadata?.namespace === undefined ? undefined : (namespaces.get(metadata.namespace) ?? {});
  return (
    matchesSelector(match.objectSelector, metadata?.labels ?? {}) &&
    // Like in the API server, a namespaceSelector never excludes cluster-scoped objects.
    (namespaceLabels === undefined || matchesSelector(match.namespaceSelector, namespaceLabels)) &&
    meetsConditions(match, object)
  );
}

/** The old object of a request, if the policy selected it. */
export const governedBefore = (
  { match }: Pick<CompiledPolicy, 'match'>,
  { oldObject }: Pick<AdmissionRequest, 'oldObject'>,
): JsonObject | undefined =>
  oldObject !== undefined &&
  matchesSelector(match.objectSelector, labelsOf(oldObject)) &&
  meetsConditions(match, oldObject)
    ? oldObject
    : undefined;

const meetsConditions = (
  { conditionsOnObject }: Pick<CompiledPolicy['match'], 'conditionsOnObject'>,
  object: object,
): boolean => !conditionsOnObject.some((condition) => isFalse(condition, object));

/** A condition that cannot be evaluated is not false: the API server refuses the request or calls the webhook. */
const isFalse = ({ evaluate }: CelProgram, object: object): boolean =>
  onCelError(
    () => evaluate({ object }) === false,
    () => false,
  );

/** Whether the policy selects the stored object now. @throws if a live read fails */
export async function isGovernedNow(
  policy: Pick<CompiledPolicy, 'match'>,
  object: KubeObject,
  { read }: Pick<ObjectReads, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  const namespace = object.metadata?.namespace;
  const { matchLabels = {}, matchExpressions = [] } = policy.match.namespaceSelector;
  const selects = Object.keys(matchLabels).length > 0 || matchExpressions.length > 0;
  if (namespace === undefined || !selects) return isInScope(policy, object, new Map());
  const found = await read(namespaceRefOf(namespace), signal);
  return isInScope(policy, object, new Map([[namespace, found?.metadata?.labels ?? {}]]));
}

/** Whether a stored object holds the key of this claim. @throws if a live read fails */
export async function holdsNow(
  policy: Pick<CompiledPolicy, 'name' | 'unique' | 'match'>,
  claim: string,
  ref: ObjectRef,
  object: KubeObject | undefined,
  world: Pick<ObjectReads, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isJsonObject(object)) return false;
  if (!heldKeys(policy, object, ref).some((key) => key.claim === claim)) return false;
  return await isGovernedNow(policy, object, world, signal);
}

import { onCelError } from '../../../cel/cel.ts';
import type { ReadStep } from '../../../cel/syntax/used-fields.ts';
import { pathsIn } from '../expressions/expression.ts';
import { isDnsLabel, isObjectName, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { matchesSelector } from '../../../json/label-selector.ts';
import { labelsOf } from '../object-metadata.ts';
import { namespaceRefOf } from '../object-ref.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { isEqual, isJsonObject, type JsonObject, ownValue } from '../../../json/json.ts';
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
    // A condition that cannot be evaluated is not false: the API server refuses the request or calls the webhook.
    outcomes(match, object).every((outcome) => outcome !== false)
  );
}

/**
 * The old object of a request, if the policy selected it. Of its own request, only the object is known: a match condition that
 * reads more counts as met only if the update changes nothing of the object that the condition reads. A condition that
 * cannot be evaluated was not met: the API server refuses the request or does not call the webhook.
 */
export function governedBefore(
  { match }: Pick<CompiledPolicy, 'match'>,
  { object, oldObject }: Pick<AdmissionRequest, 'object' | 'oldObject'>,
): JsonObject | undefined {
  if (object === undefined || oldObject === undefined) return undefined;
  const isGoverned =
    matchesSelector(match.objectSelector, labelsOf(oldObject)) &&
    outcomes(match, oldObject).every((outcome) => outcome === true) &&
    isSelectedAlike(match, oldObject, object);
  return isGoverned ? oldObject : undefined;
}

/** Whether the match conditions that read more than the object read the same values of it. */
const isSelectedAlike = (
  { matchConditions, conditionsOnObject }: CompiledPolicy['match'],
  before: JsonObject,
  after: JsonObject,
): boolean =>
  matchConditions
    .filter(({ expression }) => !conditionsOnObject.some((one) => one.expression === expression))
    .flatMap(pathsIn)
    .every((steps) => isSameAt(steps, before, after));

/** Of the conditions that read only the object. Undefined: a condition cannot be evaluated. */
const outcomes = (
  { conditionsOnObject }: Pick<CompiledPolicy['match'], 'conditionsOnObject'>,
  object: object,
): readonly unknown[] =>
  conditionsOnObject.map(({ evaluate }) =>
    onCelError(
      () => evaluate({ object }),
      () => undefined,
    ),
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

export const isSameAt = (steps: readonly ReadStep[], before: JsonObject, after: JsonObject): boolean =>
  isEqual(readAt(before, steps), readAt(after, steps));

/** What the expression finds, and after how many steps: an absent parent can make it fail, an absent field cannot. */
function readAt(object: JsonObject, steps: readonly ReadStep[]): readonly unknown[] {
  let value: unknown = object;
  let depth = 0;
  for (const { name } of steps) {
    if (!isJsonObject(value)) break;
    value = ownValue(value, name);
    depth += 1;
  }
  const isTest = depth === steps.length && steps.at(-1)?.test === true;
  return [isTest ? value !== undefined : value, depth];
}

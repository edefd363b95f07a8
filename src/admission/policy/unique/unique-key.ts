import { createHash } from 'node:crypto';

import type { ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledUnique } from '../compiled-policy.ts';
import { labelsOf } from '../object-metadata.ts';
import { besides, formatPath, valueAt, valuesAt, type FieldPath } from '../../../json/field-path.ts';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { toCanonicalText } from '../../../json/json-text.ts';
import { matchesSelector } from '../../../json/label-selector.ts';

/** What an object holds by a unique rule: one key, which no second object may hold. */
export interface HeldKey {
  readonly rule: CompiledUnique;
  /** The name of the UniqueClaim: two keys have the same if and only if they are the same. */
  readonly claim: string;
  /** e.g. `spec.ports[1].number` */
  readonly field: string;
  /** As many as the rule has paths. */
  readonly values: readonly JsonValue[];
}

/** Each costs an object in the API server; lists of users have no end. */
export const MAX_KEYS = 256;
/** 160 bits: nobody finds two keys with the same name, not even on purpose. */
const HASH_LENGTH = 40;

/**
 * Every key that the object holds by the rules of the policy, each once. One of whose fields any is absent or null is none, and an
 * object that the policy does not select holds none. Of more than {@link MAX_KEYS} by one rule the rest is left out.
 *
 * @param self where the object is: its own metadata may not say it yet
 */
export function heldKeys(
  policy: Pick<CompiledPolicy, 'name' | 'unique' | 'match'>,
  object: JsonObject,
  self: ObjectRef,
): readonly HeldKey[] {
  if (policy.unique.length === 0) return [];
  if (!matchesSelector(policy.match.objectSelector, labelsOf(object))) return [];
  const keys = new Map<string, HeldKey>();
  for (const rule of policy.unique) {
    for (const { field, values } of placesOf(rule, object).slice(0, MAX_KEYS)) {
      const claim = claimName(policy.name, rule, self, values);
      if (!keys.has(claim)) keys.set(claim, { rule, claim, field, values });
    }
  }
  return [...keys.values()];
}

/** The path whose `[*]` reach deepest: the others have one value beside each of its. */
export function deepest(paths: readonly FieldPath[]): FieldPath | undefined {
  const depthOf = ({ segments }: FieldPath) => segments.findLastIndex(({ kind }) => kind === 'each');
  return paths.reduce<FieldPath | undefined>(
    (best, path) => (best === undefined || depthOf(path) > depthOf(best) ? path : best),
    undefined,
  );
}

/** The rules by which the object would hold more keys than there may be. */
export function rulesOverLimit(
  { unique }: Pick<CompiledPolicy, 'unique'>,
  object: JsonObject,
): readonly CompiledUnique[] {
  return unique.filter((rule) => placesOf(rule, object).length > MAX_KEYS);
}

function placesOf(
  { paths }: CompiledUnique,
  object: JsonObject,
): readonly { readonly field: string; readonly values: readonly JsonValue[] }[] {
  const leading = deepest(paths);
  if (leading === undefined) return [];
  return valuesAt(object, leading).flatMap(({ keys }) => {
    const places = paths.map((path) => besides(keys, path));
    const values = places.map((place) => valueAt(object, place) ?? null);
    return values.includes(null) ? [] : [{ field: formatPath(places[0] ?? keys), values }];
  });
}

function claimName(
  policy: string,
  { name, scope }: CompiledUnique,
  { group, resource, namespace = '' }: ObjectRef,
  values: readonly JsonValue[],
): string {
  const among = scope === 'Namespace' ? [namespace] : [];
  const key = toCanonicalText([policy, name, group, resource, among, values]);
  return `${name}-${createHash('sha256').update(key).digest('hex').slice(0, HASH_LENGTH)}`;
}

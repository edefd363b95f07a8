import { createHash } from 'node:crypto';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledMatch, CompiledPolicy, CompiledUnique } from '../compiled-policy.ts';
import { hasWildcard } from '../match/resource-pattern.ts';
import { labelsOf } from '../object-metadata.ts';
import { requireWrites, tryPath, type Report } from '../problem.ts';
import {
  siblingPath,
  formatPath,
  isSiblingPath,
  keysAt,
  valueAt,
  type ConcretePath,
  type FieldPath,
} from '../../../json/field-path.ts';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { toCanonicalText } from '../../../json/json-text.ts';
import { matchesSelector } from '../../../json/label-selector.ts';

export function compileUnique(
  { validate: { unique: rules = [] } = {} }: AdmissionPolicySpec,
  match: CompiledMatch,
  report: Report,
): readonly CompiledUnique[] {
  if (rules.length > 0) {
    requireWrites(match, 'spec.validate.unique would never be checked: add them', report);
    if (match.resources.some((resource) => hasWildcard(resource) || resource.includes('/'))) {
      const message =
        'has a wildcard or a subresource, and it has to be known which objects hold unique values: list the resources';
      report('spec.match.resources', message, 'Unsupported');
    }
  }
  return rules.map(({ name, paths: texts, scope = 'Cluster', maxValues = DEFAULT_KEYS }, index) => {
    const where = `spec.validate.unique[${index}].paths`;
    const paths = texts.flatMap((text, place) => tryPath(text, `${where}[${place}]`, report) ?? []);
    const leading = deepest(paths);
    const other = paths.find((path) => leading !== undefined && !isSiblingPath(path, leading));
    if (other !== undefined && leading !== undefined) {
      const message = `${other.text} and ${leading.text} go over different lists, so it is not clear which of their values belong together: write a rule for each`;
      report(where, message, 'InvalidPath');
    }
    return { name, scope, paths, maxValues };
  });
}

export interface HeldKey {
  readonly rule: CompiledUnique;
  /** The name of the UniqueClaim: equal keys have equal names, and different keys have different names. */
  readonly claim: string;
  /** e.g. `spec.ports[1].number` */
  readonly field: string;
  readonly values: readonly JsonValue[];
}

/** Each key costs an object in the API server, and the lists of users are unbounded. */
export const MAX_KEYS = 256;
const DEFAULT_KEYS = 16;
/** In hex digits, 160 bits: too long for a collision, even a deliberate one. */
const HASH_LENGTH = 40;

/** At most {@link MAX_KEYS} for each rule. @param self the object, whose metadata may lack its identity */
export function heldKeys(
  policy: Pick<CompiledPolicy, 'name' | 'unique' | 'match'>,
  object: JsonObject,
  self: ObjectRef,
): readonly HeldKey[] {
  if (policy.unique.length === 0) return [];
  if (!matchesSelector(policy.match.objectSelector, labelsOf(object))) return [];
  const keys = new Map<string, HeldKey>();
  for (const rule of policy.unique) {
    let left = MAX_KEYS;
    for (const { place, values } of placesOf(rule, object)) {
      const claim = claimName(policy.name, rule, self, values);
      if (!keys.has(claim)) keys.set(claim, { rule, claim, field: formatPath(place), values });
      left -= 1;
      if (left === 0) break;
    }
  }
  return [...keys.values()];
}

/** The path with the deepest `[*]`: each of its values pairs with one value of every other path. */
function deepest(paths: readonly FieldPath[]): FieldPath | undefined {
  const depthOf = ({ segments }: FieldPath) => segments.findLastIndex(({ kind }) => kind === 'each');
  return paths.reduce<FieldPath | undefined>(
    (best, path) => (best === undefined || depthOf(path) > depthOf(best) ? path : best),
    undefined,
  );
}

export function countKeys(rule: CompiledUnique, object: JsonObject): number {
  const places = placesOf(rule, object);
  let count = 0;
  while (places.next().done !== true) count += 1;
  return count;
}

/** Those after the first {@link MAX_KEYS}: lists older than the rule can have them. */
export function unclaimedValues(rule: CompiledUnique, object: JsonObject): ReadonlySet<string> {
  const texts = Array.from(placesOf(rule, object), ({ values }) => toCanonicalText([...values]));
  const claimed = new Set(texts.slice(0, MAX_KEYS));
  return new Set(texts.slice(MAX_KEYS).filter((text) => !claimed.has(text)));
}

/** One after the other, because a list of users can have 100,000s of elements. */
function* placesOf(
  { paths }: CompiledUnique,
  object: JsonObject,
): Generator<{ readonly place: ConcretePath; readonly values: readonly JsonValue[] }, undefined> {
  const leading = deepest(paths);
  if (leading === undefined) return;
  for (const keys of keysAt(object, leading)) {
    const places = paths.map((path) => siblingPath(keys, path));
    const values = places.map((place) => valueAt(object, place) ?? null);
    if (!values.includes(null)) yield { place: places[0] ?? keys, values };
  }
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

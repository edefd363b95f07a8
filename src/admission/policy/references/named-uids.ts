/** The fields of `spec.restore.uids`: each holds the uid of an object of any kind, which a restore changes. */
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import {
  isRecordOf,
  OWNER_RECORD_ANNOTATION,
  ownerKey,
  parseOwnerRecord,
} from '../../../api/owner-record.ts';
import {
  childOf,
  type ConcretePath,
  type FieldPath,
  formatPath,
  type Segment,
  valueAt,
} from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, textIn, uniqueBy } from '../../../json/json.ts';
import type { KubeObject, OwnerReference } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { type Report, tryPath } from '../problem.ts';

export interface NamedUid {
  readonly field: string;
  readonly keys: ConcretePath;
  readonly uid: string;
  /** Undefined: nothing says whose uid it is. */
  readonly ref: Omit<OwnerReference, 'uid'> | undefined;
  readonly namespace: string | undefined;
}

export function compileUids({ restore }: AdmissionPolicySpec, report: Report): readonly FieldPath[] {
  return (restore?.uids ?? []).flatMap((text, index) => {
    const at = `spec.restore.uids[${index}]`;
    const path = tryPath(text, at, report);
    const [first] = path?.segments ?? [];
    if (path !== undefined && (first?.kind !== 'field' || first.name !== 'spec'))
      report(at, 'has to be a field of spec, because Gatehouse writes it', 'InvalidPath');
    return path ?? [];
  });
}

/** Without the uids of present owners: the garbage collector would have deleted the object if they were stale. */
export function namedUids(
  policies: readonly Pick<CompiledPolicy, 'restore'>[],
  object: KubeObject,
): readonly NamedUid[] {
  const places = policies.flatMap(({ restore }) =>
    restore.uids.flatMap(({ segments }) => placesIn(object, segments)),
  );
  const { name = '', namespace, annotations, ownerReferences = [] } = object.metadata ?? {};
  const record = parseOwnerRecord(annotations?.[OWNER_RECORD_ANNOTATION]);
  const recorded = record !== undefined && isRecordOf(record, name) ? record.refs : [];
  return uniqueBy(places, formatPath).flatMap((keys): readonly NamedUid[] => {
    const uid = valueAt(object, keys);
    if (typeof uid !== 'string' || uid === '' || ownerReferences.some((owner) => owner.uid === uid))
      return [];
    const owner = recorded.find((ref) => ref.uid === uid);
    const named = namedNextTo(object, keys);
    const isOwner = named === undefined || (owner !== undefined && ownerKey(owner) === ownerKey(named.ref));
    const found = owner === undefined ? named : isOwner ? { ref: owner, namespace } : undefined;
    return [{ field: formatPath(keys), keys, uid, ref: found?.ref, namespace: found?.namespace }];
  });
}

/** `[*]` matches each item of a list and each value of a map. */
function placesIn(
  value: unknown,
  [segment, ...rest]: readonly Segment[],
  keys: ConcretePath = [],
): readonly ConcretePath[] {
  if (value === undefined) return [];
  if (segment === undefined) return [keys];
  return childrenOf(value, segment).flatMap((key) => placesIn(childOf(value, key), rest, [...keys, key]));
}

function childrenOf(value: unknown, segment: Segment): ConcretePath {
  if (segment.kind === 'field') return [segment.name];
  if (segment.kind === 'index') return [segment.index];
  if (isJsonArray(value)) return [...value.keys()];
  return isJsonObject(value) ? Object.keys(value) : [];
}

/** As in an ObjectReference. A namespaced object may name only its own namespace, or users could learn foreign uids. */
function namedNextTo(object: KubeObject, keys: ConcretePath) {
  const parent = valueAt(object, keys.slice(0, -1));
  const [apiVersion, kind, name] = ['apiVersion', 'kind', 'name'].map((field) => textIn(parent, field));
  if (keys.at(-1) !== 'uid' || !apiVersion || !kind || !name) return undefined;
  const own = object.metadata?.namespace;
  const namespace = textIn(parent, 'namespace') || own;
  return own === undefined || namespace === own ? { ref: { apiVersion, kind, name }, namespace } : undefined;
}

import { groupResourceName, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import {
  besides,
  valueAt,
  valuesAt,
  type ConcretePath,
  type FieldPath,
  type FieldValue,
} from '../../../json/field-path.ts';
import { ownValue, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { isDnsLabel, isObjectName } from '../../../json/names.ts';
import { quote } from '../../../json/printable.ts';

/** A field that names a target which could exist. */
export interface FoundReference {
  readonly reference: CompiledReference;
  /** e.g. `spec.disks[1].class` */
  readonly field: string;
  readonly target: ObjectRef;
}

/** A field that cannot name any target, whatever there is in the cluster. */
export interface BrokenReference {
  readonly reference: CompiledReference;
  readonly field: string;
  /** What it holds. */
  readonly value: JsonValue;
  /** e.g. `is a list, not a name` */
  readonly flaw: string;
}

export interface ReadReferences {
  readonly found: readonly FoundReference[];
  readonly broken: readonly BrokenReference[];
}

/**
 * Every object that `object` names by the references of the policy. An absent field, null and an empty string name none.
 *
 * The target is in the namespace that the field at `namespacePath` holds; without one, in that of the object itself; a
 * cluster-scoped target in none.
 */
export function referencesOf(
  policy: Pick<CompiledPolicy, 'references'>,
  object: JsonObject | KubeObject,
  ownNamespace?: string,
): readonly FoundReference[] {
  return readReferences(policy, object, ownNamespace).found;
}

/**
 * {@link referencesOf}, and the fields that cannot name anything.
 *
 * @param ownNamespace of the object, where its metadata may not say it: the object of a subresource, for example.
 */
export function readReferences(
  { references }: Pick<CompiledPolicy, 'references'>,
  object: JsonObject | KubeObject,
  ownNamespace: string | undefined = namespaceOf(object),
): ReadReferences {
  const found: FoundReference[] = [];
  const broken: BrokenReference[] = [];
  for (const reference of references) {
    for (const place of valuesAt(object, reference.path)) {
      if (isBlank(place.value)) continue;
      const read = readReference(reference, place, object, ownNamespace);
      if ('target' in read) found.push(read);
      else broken.push(read);
    }
  }
  return { found, broken };
}

/** One text for each target: two references to the same one have the same. */
export function targetKey(target: ObjectRef): string {
  return `${groupResourceName(target)}/${target.namespace ?? ''}/${target.name}`;
}

function readReference(
  reference: CompiledReference,
  { path: field, keys, value }: FieldValue,
  object: object,
  ownNamespace: string | undefined,
): FoundReference | BrokenReference {
  const { target, targetKind } = reference;
  if (typeof value !== 'string') {
    return {
      reference,
      field,
      value,
      flaw: `${quote(value)} is not the name of a ${targetKind}: write a string`,
    };
  }
  if (!isObjectName(target, value)) {
    const flaw = `${quote(value)} cannot be the name of a ${targetKind}: write lower-case letters, digits, - and .`;
    return { reference, field, value, flaw };
  }
  if (!reference.namespaced)
    return { reference, field, target: { ...target, namespace: undefined, name: value } };

  const namespace = namespaceFor(reference.namespacePath, keys, object) ?? ownNamespace;
  if (typeof namespace === 'string' && isDnsLabel(namespace)) {
    return { reference, field, target: { ...target, namespace, name: value } };
  }
  const where = reference.namespacePath?.text ?? 'metadata.namespace';
  const flaw = `${quote(value)} names a ${targetKind} in no namespace: ${where} holds ${
    namespace === undefined ? 'none' : `${quote(namespace)}, which is not the name of one`
  }`;
  return { reference, field, value, flaw };
}

/** Beside the field: where the path of the namespace says `[*]`, the element in which the name stands. */
function namespaceFor(
  path: FieldPath | undefined,
  keys: ConcretePath,
  object: object,
): JsonValue | undefined {
  if (path === undefined) return undefined;
  const value = valueAt(object, besides(keys, path));
  return value === undefined || isBlank(value) ? undefined : value;
}

function isBlank(value: JsonValue): boolean {
  return value === null || value === '';
}

function namespaceOf(object: object): string | undefined {
  const metadata = ownValue(object, 'metadata');
  const namespace = isJsonObject(metadata) ? ownValue(metadata, 'namespace') : undefined;
  return typeof namespace === 'string' && namespace !== '' ? namespace : undefined;
}

import { isDnsLabel, isObjectName, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import {
  type ConcretePath,
  type FieldPath,
  type FieldValue,
  siblingPath,
  valueAt,
  valuesAt,
} from '../../../json/field-path.ts';
import { type JsonObject, type JsonValue, textIn } from '../../../json/json.ts';
import { quote } from '../../../json/printable.ts';
import { targetKey } from '../object-ref.ts';

export interface FoundReference {
  readonly reference: CompiledReference;
  /** e.g. `spec.disks[1].class` */
  readonly field: string;
  readonly keys: ConcretePath;
  readonly target: ObjectRef;
}

export const referenceKey = ({ reference, target }: Pick<FoundReference, 'reference' | 'target'>): string =>
  `${reference.name} ${targetKey(target)}`;

interface BrokenReference {
  readonly reference: CompiledReference;
  readonly field: string;
  readonly value: JsonValue;
  /** e.g. `is a list, not a name` */
  readonly flaw: string;
}

export interface ReadReferences {
  readonly found: readonly FoundReference[];
  readonly broken: readonly BrokenReference[];
}

/**
 * Skips absent fields, null and empty strings.
 * @param ownNamespace of the object; its metadata may lack it, for example in the object of a subresource
 */
export function readReferences(
  { references }: Pick<CompiledPolicy, 'references'>,
  object: JsonObject | KubeObject,
  ownNamespace: string | undefined = textIn(object, 'metadata', 'namespace') || undefined,
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

export const referencesOf = (...args: Parameters<typeof readReferences>): readonly FoundReference[] =>
  readReferences(...args).found;

function readReference(
  reference: CompiledReference,
  { path: field, keys, value }: FieldValue,
  object: object,
  ownNamespace: string | undefined,
): FoundReference | BrokenReference {
  const { target, targetKind } = reference;
  const broken = (flaw: string) => ({ reference, field, value, flaw });
  if (typeof value !== 'string')
    return broken(`${quote(value)} is not the name of a ${targetKind}: write a string`);
  if (!isObjectName(target, value)) {
    const wanted = 'write lower-case letters, digits, - and .';
    return broken(`${quote(value)} cannot be the name of a ${targetKind}: ${wanted}`);
  }
  const found = (namespace: string | undefined) => ({
    reference,
    field,
    keys,
    target: { ...target, namespace, name: value },
  });
  if (!reference.namespaced) return found(undefined);
  const namespace = namespaceFor(reference.namespacePath, keys, object) ?? ownNamespace;
  if (typeof namespace === 'string' && isDnsLabel(namespace)) return found(namespace);
  const where = reference.namespacePath?.text ?? 'metadata.namespace';
  const problem =
    namespace === undefined ? 'is not set' : `holds ${quote(namespace)}, which is not a valid namespace`;
  return broken(`${quote(value)} references a ${targetKind} without a namespace: ${where} ${problem}`);
}

function namespaceFor(
  path: FieldPath | undefined,
  keys: ConcretePath,
  object: object,
): JsonValue | undefined {
  if (path === undefined) return undefined;
  const value = valueAt(object, siblingPath(keys, path));
  return value === undefined || isBlank(value) ? undefined : value;
}

function isBlank(value: JsonValue): boolean {
  return value === null || value === '';
}

export const restrictingReferences = (references: CompiledPolicy['references']) =>
  references.filter(({ restrictsDelete }) => restrictsDelete);

export const deletionReferences = (references: CompiledPolicy['references']) =>
  references.filter(({ restrictsDelete, deleteAction }) => restrictsDelete || deleteAction !== undefined);

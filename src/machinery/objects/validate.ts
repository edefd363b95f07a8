import { isEqual, ownValue, type JsonObject } from '../../json/json.ts';
import { field, toJson, withMeta, withoutField, type ApiObject, type ObjectMeta } from '../api-object.ts';
import { invalid, type Cause } from '../failure.ts';
import type { ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { checkRules, rulesSkipped } from '../schema/rules/rules.ts';
import { validateSchema } from '../schema/validate.ts';
import { labelKeyProblems, labelValueProblems } from '../../json/name-problems.ts';
import { subdomainProblem } from '../name-problems.ts';
import {
  forbiddenValue,
  invalidIf,
  invalidValue,
  invalidValues,
  requiredValue,
  tooLong,
  when,
} from '../schema/causes.ts';

/** Go decodes an empty string as zero bytes, and null as a list without items. Custom resources reject both. */
const NOTHING_IN_GO = /must be of type (?:byte: ""|array: "null")$/;

/** @param old the stored object: problems that it already has are tolerated in custom resources */
export function schemaProblems(object: JsonObject, type: ResourceType, old?: JsonObject): readonly Cause[] {
  const problems = validateSchema(object, wholeSchema(type), type.custom ? old : undefined);
  return type.custom ? problems : problems.filter(({ message }) => !NOTHING_IN_GO.test(message));
}

export function validateCreate(object: ApiObject, type: ResourceType): void {
  refuse(object, type, [
    ...metadataProblems(object, type),
    ...valueProblems(object, undefined, type),
    ...type.strategy.validate(object),
  ]);
}

export function validateUpdate(
  object: ApiObject,
  old: ApiObject,
  type: ResourceType,
  subresource: string,
): void {
  const problems = valueProblems(object, old, type);
  refuse(object, type, [
    ...metadataProblems(object, type),
    ...metadataUpdateProblems(object, old),
    ...(type.custom && subresource === 'status' ? problems.map(namedFromStatus) : problems),
    ...type.strategy.validate(object, old),
    ...type.strategy.validateUpdate(object, old),
  ]);
}

/** A write of the status validates it alone: the message names the field without `status.`. */
function namedFromStatus(cause: Cause): Cause {
  const { field: path, message } = cause;
  return path.startsWith('status.')
    ? { ...cause, message: message.replace(`${path} in body`, `${path.slice('status.'.length)} in body`) }
    : cause;
}

/** CEL rules do not run on values with certain problems; a cause says that they were skipped. */
function valueProblems(object: ApiObject, old: ApiObject | undefined, type: ResourceType): readonly Cause[] {
  const before = old && toJson(old);
  const problems = schemaProblems(toJson(object), type, before);
  const skipped = rulesSkipped(type.schema, problems);
  if (skipped !== undefined) return [...problems, skipped];
  return [...problems, ...checkRules(toJson(object), before, type.schema)];
}

function refuse(object: ApiObject, type: ResourceType, causes: readonly Cause[]): void {
  if (causes.length > 0) throw invalid(type, object.metadata.name ?? '', causes);
}

export function withGeneration(
  object: ApiObject,
  old: ApiObject | undefined,
  { strategy, hasStatus }: ResourceType,
): ApiObject {
  if (!strategy.countsGenerations) {
    return old === undefined ? object : withMeta(object, { generation: old.metadata.generation });
  }
  const before = old?.metadata.generation ?? 0;
  const generation = old === undefined ? 1 : before + (sameContent(object, old, hasStatus) ? 0 : 1);
  return withMeta(object, { generation });
}

function sameContent(a: ApiObject, b: ApiObject, hasStatus: boolean): boolean {
  const ignored = ['metadata', 'apiVersion', 'kind', ...(hasStatus ? ['status'] : [])];
  const rest = (object: ApiObject) =>
    Object.fromEntries(Object.entries(toJson(object)).filter(([key]) => !ignored.includes(key)));
  return isEqual(rest(a), rest(b));
}

export function withStatusOf(object: ApiObject, other: ApiObject | undefined): ApiObject {
  const status = other === undefined ? undefined : field(other, 'status');
  const rest = withoutField(object, 'status');
  return status === undefined ? rest : { ...rest, status };
}

/** In bytes of all keys and values of an object together. */
const ANNOTATIONS_LIMIT = 256 * 1024;

/** The problems of an object's metadata, as in ValidateObjectMeta of k8s.io/apimachinery. */
function metadataProblems({ metadata }: ApiObject, type: ResourceType): readonly Cause[] {
  return [
    ...nameProblems(metadata, type.strategy.nameProblem ?? subdomainProblem),
    ...labelProblems(metadata.labels ?? {}, 'metadata.labels'),
    ...annotationProblems(metadata),
    ...ownerProblems(metadata),
    ...finalizerProblems(metadata, type),
  ];
}

function nameProblems(
  { name = '', generateName = '' }: ObjectMeta,
  problemOf: (name: string) => string | undefined,
): readonly Cause[] {
  if (name === '') return [requiredValue('metadata.name', 'name or generateName is required')];
  const problem = problemOf(name);
  return [
    // The API server validates only the prefix of a generated name, because the user controls only that.
    ...(generateName === '' ? [] : invalidIf('metadata.generateName', generateName, problem)),
    ...invalidIf('metadata.name', name, problem),
  ];
}

function annotationProblems({ annotations = {} }: ObjectMeta): readonly Cause[] {
  const field = 'metadata.annotations';
  const entries = Object.entries(annotations);
  const size = entries.reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value),
    0,
  );
  return [
    ...entries.flatMap(([key]) => invalidValues(field, key, labelKeyProblems(key.toLowerCase()))),
    ...when(size > ANNOTATIONS_LIMIT, tooLong(field, ANNOTATIONS_LIMIT)),
  ];
}

function ownerProblems({ ownerReferences = [] }: ObjectMeta): readonly Cause[] {
  const field = 'metadata.ownerReferences';
  const controllers = ownerReferences.filter(({ controller }) => controller === true);
  const required = ['apiVersion', 'kind', 'name', 'uid'] as const;
  const [first, ...others] = controllers.map(({ kind, name }) => `${kind}/${name}`);
  const shown = ownerReferences.map((reference) => ({ ...reference }));
  return [
    ...ownerReferences.flatMap((reference, index) => [
      ...required
        .filter((name) => (ownValue(reference, name) ?? '') === '') // an absent field is empty in a Go struct
        .map((name) => requiredValue(`${field}[${index}].${name}`, 'must not be empty')),
      ...when(
        reference.apiVersion === 'v1' && reference.kind === 'Event',
        invalidValue(
          `${field}[${index}]`,
          { ...reference },
          '/v1, Kind=Event is disallowed from being an owner',
        ),
      ),
    ]),
    ...others.map((other) =>
      invalidValue(
        field,
        shown,
        `Only one reference can have Controller set to true. Found "true" in references for ${first ?? ''} and ${other}`,
      ),
    ),
  ];
}

/** Finalizers without a domain that Kubernetes defines. */
const STANDARD_FINALIZERS = new Set(['kubernetes', 'orphan', 'foregroundDeletion']);

/** Groups whose validation does not include the finalizer rules of pkg/apis/core. */
const LENIENT_GROUPS = new Set([
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'coordination.k8s.io',
]);

function finalizerProblems(
  { finalizers = [] }: ObjectMeta,
  { group, custom }: ResourceType,
): readonly Cause[] {
  const field = 'metadata.finalizers';
  const isStrict = !custom && !LENIENT_GROUPS.has(group);
  const isKnown = (name: string) => name.includes('/') || STANDARD_FINALIZERS.has(name);
  const unknown = 'name is neither a standard finalizer name nor is it fully qualified';
  return [
    ...finalizers.flatMap((name) => invalidValues(field, name, labelKeyProblems(name))),
    ...when(
      ['foregroundDeletion', 'orphan'].every((name) => finalizers.includes(name)),
      invalidValue(field, finalizers, 'finalizer orphan and foregroundDeletion cannot be both set'),
    ),
    ...finalizers.flatMap((name, index) =>
      when(isStrict && !isKnown(name), invalidValue(`${field}[${index}]`, name, unknown)),
    ),
  ];
}

function metadataUpdateProblems(
  { metadata: now }: ApiObject,
  { metadata: was }: ApiObject,
): readonly Cause[] {
  const immutable = [
    'name',
    'namespace',
    'uid',
    'creationTimestamp',
    'deletionTimestamp',
    'deletionGracePeriodSeconds',
  ] as const;
  const added = (now.finalizers ?? []).filter((name) => !(was.finalizers ?? []).includes(name));
  const found = `found new finalizers []string{${added.map((name) => JSON.stringify(name)).join(', ')}}`;
  return [
    ...immutable
      .filter((name) => now[name] !== was[name])
      .map((name) => invalidValue(`metadata.${name}`, now[name] ?? null, 'field is immutable')),
    ...when(
      was.deletionTimestamp !== undefined && added.length > 0,
      forbiddenValue(
        'metadata.finalizers',
        `no new finalizers can be added if the object is being deleted, ${found}`,
      ),
    ),
  ];
}

function labelProblems(labels: Readonly<Record<string, string>>, field: string): readonly Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...invalidValues(field, key, labelKeyProblems(key)),
    ...invalidValues(field, value, labelValueProblems(value)),
  ]);
}

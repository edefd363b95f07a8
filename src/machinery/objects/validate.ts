import { isEqual, ownValue, type JsonObject } from '../../json/json.ts';
import { field, toJson, withMeta, withoutField, type ApiObject, type ObjectMeta } from '../api-object.ts';
import { invalid, type Cause } from '../failure.ts';
import type { ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { checkRules, rulesSkipped } from '../schema/rules/rules.ts';
import { validateSchema } from '../schema/validate.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';
import { invalidValue, requiredValue } from '../schema/causes.ts';

/** Go decodes an empty string as zero bytes; the format `byte` of custom resources rejects it. */
const NO_BYTES = 'must be of type byte: ""';

/** @param old the stored object: problems that it already has are tolerated in custom resources */
export function schemaProblems(object: JsonObject, type: ResourceType, old?: JsonObject): readonly Cause[] {
  const problems = validateSchema(object, wholeSchema(type), type.custom ? old : undefined);
  return type.custom ? problems : problems.filter(({ message }) => !message.endsWith(NO_BYTES));
}

/** @throws ApiFailure 422 with all problems */
export function validateCreate(object: ApiObject, type: ResourceType): void {
  refuse(object, type, [
    ...metadataProblems(object, type),
    ...valueProblems(object, undefined, type),
    ...type.strategy.validate(object),
  ]);
}

/** @throws ApiFailure 422 with all problems */
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
  const problems = schemaProblems(toJson(object), type, old === undefined ? undefined : toJson(old));
  const skipped = rulesSkipped(type.schema, problems);
  return [
    ...problems,
    ...(skipped === undefined
      ? checkRules(toJson(object), old === undefined ? undefined : toJson(old), type.schema)
      : [skipped]),
  ];
}

function refuse(object: ApiObject, type: ResourceType, causes: readonly Cause[]): void {
  if (causes.length > 0) throw invalid(type, object.metadata.name ?? '', causes);
}

/** Sets `metadata.generation` for storage. */
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

/**
 * Whether both have the same content, apart from metadata. Without a status subresource, `status` counts as content.
 */
function sameContent(a: ApiObject, b: ApiObject, hasStatus: boolean): boolean {
  const ignored = ['metadata', 'apiVersion', 'kind', ...(hasStatus ? ['status'] : [])];
  const rest = (object: ApiObject) =>
    Object.fromEntries(Object.entries(toJson(object)).filter(([key]) => !ignored.includes(key)));
  return isEqual(rest(a), rest(b));
}

/** The object with the `status` of another object, or without status. */
export function withStatusOf(object: ApiObject, other: ApiObject | undefined): ApiObject {
  const status = other === undefined ? undefined : field(other, 'status');
  const rest = withoutField(object, 'status');
  return status === undefined ? rest : { ...rest, status };
}

const ANNOTATIONS_LIMIT = 256 * 1024;

// bytes of all keys and values of an object together
const DNS_SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;

const SUBDOMAIN_PROBLEM =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with " +
  "an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

function subdomainProblem(name: string): string | undefined {
  if (name.length > 253) return 'must be no more than 253 characters';
  return DNS_SUBDOMAIN.test(name) ? undefined : SUBDOMAIN_PROBLEM;
}

/** The problems of an object's metadata, as in ValidateObjectMeta of k8s.io/apimachinery. */
function metadataProblems({ metadata }: ApiObject, type: ResourceType): readonly Cause[] {
  const causes: Cause[] = [];
  const nameProblem = type.strategy.nameProblem ?? subdomainProblem;
  const { name = '', generateName = '' } = metadata;
  if (name === '') {
    causes.push({
      reason: 'FieldValueRequired',
      message: 'Required value: name or generateName is required',
      field: 'metadata.name',
    });
  } else {
    const problem = nameProblem(name);
    // The API server validates only the prefix of a generated name, because the user controls only that.
    if (problem !== undefined && generateName !== '')
      causes.push(invalidValue('metadata.generateName', generateName, problem));
    if (problem !== undefined) causes.push(invalidValue('metadata.name', name, problem));
  }
  causes.push(
    ...labelProblems(metadata),
    ...annotationProblems(metadata),
    ...ownerProblems(metadata),
    ...finalizerProblems(metadata, type),
  );
  return causes;
}

const NAME_PART =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
  "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
  "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
  "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

function labelProblems({ labels = {} }: ObjectMeta): readonly Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...(isQualifiedName(key) ? [] : [invalidValue('metadata.labels', key, NAME_PART)]),
    ...(isLabelValue(value)
      ? []
      : [
          invalidValue(
            'metadata.labels',
            value,
            value.length > 63 ? 'must be no more than 63 bytes' : LABEL_VALUE,
          ),
        ]),
  ]);
}

function annotationProblems({ annotations = {} }: ObjectMeta): readonly Cause[] {
  const entries = Object.entries(annotations);
  const size = entries.reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value),
    0,
  );
  return [
    ...entries
      .filter(([key]) => !isQualifiedName(key.toLowerCase()))
      .map(([key]) => invalidValue('metadata.annotations', key, NAME_PART)),
    ...(size > ANNOTATIONS_LIMIT
      ? [
          {
            reason: 'FieldValueTooLong',
            message: `Too long: may not be more than ${ANNOTATIONS_LIMIT} bytes`,
            field: 'metadata.annotations',
          },
        ]
      : []),
  ];
}

function ownerProblems({ ownerReferences = [] }: ObjectMeta): readonly Cause[] {
  const controllers = ownerReferences.filter(({ controller }) => controller === true);
  const required = ['apiVersion', 'kind', 'name', 'uid'] as const;
  const [first, ...others] = controllers.map(({ kind, name }) => `${kind}/${name}`);
  return [
    ...ownerReferences.flatMap((reference, index) => [
      ...required
        .filter((name) => (ownValue(reference, name) ?? '') === '') // an absent field is empty in a Go struct
        .map((name) => requiredValue(`metadata.ownerReferences[${index}].${name}`, 'must not be empty')),
      ...(reference.apiVersion === 'v1' && reference.kind === 'Event'
        ? [
            invalidValue(
              `metadata.ownerReferences[${index}]`,
              { ...reference },
              '/v1, Kind=Event is disallowed from being an owner',
            ),
          ]
        : []),
    ]),
    ...others.map((other) =>
      invalidValue(
        'metadata.ownerReferences',
        ownerReferences.map((reference) => ({ ...reference })),
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
  const malformed = finalizers
    .filter((name) => !isQualifiedName(name))
    .map((name) => invalidValue('metadata.finalizers', name, NAME_PART));
  const both = ['foregroundDeletion', 'orphan'].every((name) => finalizers.includes(name))
    ? [
        invalidValue(
          'metadata.finalizers',
          finalizers,
          'finalizer orphan and foregroundDeletion cannot be both set',
        ),
      ]
    : [];
  const unknown =
    custom || LENIENT_GROUPS.has(group)
      ? []
      : finalizers.flatMap((name, index) =>
          name.includes('/') || STANDARD_FINALIZERS.has(name)
            ? []
            : [
                invalidValue(
                  `metadata.finalizers[${index}]`,
                  name,
                  'name is neither a standard finalizer name nor is it fully qualified',
                ),
              ],
        );
  return [...malformed, ...both, ...unknown];
}

/** Metadata fields that an update may not change, as in ValidateObjectMetaUpdate. */
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
  const causes: Cause[] = immutable
    .filter((name) => now[name] !== was[name])
    .map((name) => ({
      reason: 'FieldValueInvalid',
      message: `Invalid value: ${JSON.stringify(now[name] ?? null)}: field is immutable`,
      field: `metadata.${name}`,
    }));
  if (was.deletionTimestamp !== undefined) {
    const added = (now.finalizers ?? []).filter((name) => !(was.finalizers ?? []).includes(name));
    if (added.length > 0) {
      causes.push({
        reason: 'FieldValueForbidden',
        message:
          'Forbidden: no new finalizers can be added if the object is being deleted, ' +
          `found new finalizers []string{${added.map((name) => JSON.stringify(name)).join(', ')}}`,
        field: 'metadata.finalizers',
      });
    }
  }
  return causes;
}

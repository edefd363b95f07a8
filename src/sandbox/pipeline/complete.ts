import {
  isEqual,
  isJsonObject,
  ownValue,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { field, ofJson, toJson, withMeta, withoutField, type ApiObject } from '../api-object.ts';
import { badRequest, invalid, type Cause } from '../failure.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { invalidValue } from '../schema/causes.ts';
import { applyDefaults } from '../schema/default.ts';
import { OBJECT_META, wholeSchema } from '../schema/object-meta.ts';
import { prune } from '../schema/prune.ts';
import { checkRules, rulesSkipped } from '../schema/rules.ts';
import type { Schema } from '../schema/schema.ts';
import { validateSchema } from '../schema/validate.ts';
import type { Notes } from './context.ts';
import { goForm } from './go-form.ts';
import { metadataProblems, metadataUpdateProblems } from './metadata.ts';
import type { FieldValidation } from './options.ts';

/** The object without what its schema does not know, and with its defaults. */
export function complete(object: ApiObject, type: ResourceType): ApiObject {
  return withDefaults(prune(toJson(object), wholeSchema(type)).value, type);
}

function withDefaults(value: JsonValue, type: ResourceType): ApiObject {
  const object = ofJson(plainDefaults(value, type));
  return type.strategy.completeDefaults?.(object) ?? object;
}

/** The value as its schema alone would have it. */
function plainDefaults(value: JsonValue, type: ResourceType): JsonValue {
  const schema = wholeSchema(type);
  return applyDefaults(isJsonObject(value) ? goForm(value, schema, type.custom) : value, schema);
}

/**
 * What a client sent, as an object of this type: typed, pruned, defaulted.
 *
 * @throws ApiFailure 400 when it is none, or when it has unknown fields and `fieldValidation` is Strict
 */
export function decodeObject(
  value: unknown,
  type: ResourceType,
  fieldValidation: FieldValidation,
  notes: Notes,
): ApiObject {
  const typed = withType(value, type);
  const schema = wholeSchema(type);
  const { value: known, unknown } = prune(typed, schema);
  reportUnknown(unknown, type, fieldValidation, notes);
  const plain = plainDefaults(known, type);
  if (isJsonObject(plain)) refuseWrongTypes(plain, type);
  return withDefaults(plain, type);
}

const shown = (value: unknown) => (typeof value === 'string' ? value : stringifyJson(value));

/** The text names each unknown field, once; more than a few would not fit a header. */
export function reportUnknown(
  unknown: readonly string[],
  type: ResourceType,
  fieldValidation: FieldValidation,
  notes: Notes,
): void {
  if (unknown.length === 0 || fieldValidation === 'Ignore') return;
  const texts = unknown.map((path) => `unknown field ${JSON.stringify(path)}`);
  if (fieldValidation !== 'Strict') {
    for (const text of texts) notes.warn(text);
    return;
  }
  throw badRequest(`${cannotBeHandled(type)}strict decoding error: ${texts.join(', ')}`);
}

export const cannotBeHandled = ({ kind, version }: ResourceType) =>
  `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: `;

function withType(value: unknown, type: ResourceType): JsonObject {
  if (!isJsonObject(value)) throw badRequest('the body of the request is not an object');
  const object = value; // JSON that was parsed
  const apiVersion = apiVersionOf(type);
  refuseOtherType(object, type);
  const metadata = ownValue(object, 'metadata');
  if (metadata !== undefined && metadata !== null && !isJsonObject(metadata)) {
    throw badRequest(
      `${cannotBeHandled(type)}json: cannot unmarshal into ObjectMeta: metadata is not an object`,
    );
  }
  return { ...object, apiVersion, kind: type.kind, metadata: isJsonObject(metadata) ? metadata : {} };
}

/** Built-in kinds may leave apiVersion and kind to the path. @throws ApiFailure 400, 422 when a custom resource says another kind */
function refuseOtherType(object: JsonObject, type: ResourceType): void {
  const expected = apiVersionOf(type);
  const given = (key: string, otherwise: string) => {
    const value = shown(ownValue(object, key) ?? '');
    return value === '' && !type.custom ? otherwise : value;
  };
  const apiVersion = given('apiVersion', expected);
  const kind = given('kind', type.kind);
  if (kind === '' && type.custom) {
    throw badRequest(`${cannotBeHandled(type)}Object 'Kind' is missing in '${stringifyJson(object)}'`);
  }
  if (apiVersion === expected && kind === type.kind) return;
  if (!type.custom) {
    const version = JSON.stringify(apiVersion.slice(apiVersion.indexOf('/') + 1));
    throw badRequest(
      `${kind} in version ${version} cannot be handled as a ${type.kind}: ` +
        `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme`,
    );
  }
  if (apiVersion !== expected) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`,
    );
  }
  const metadata = ownValue(object, 'metadata');
  const name = isJsonObject(metadata) ? ownValue(metadata, 'name') : undefined;
  throw invalid({ group: type.group, kind }, typeof name === 'string' ? name : '', [
    invalidValue('kind', kind, `must be ${type.kind}`),
  ]);
}

/** Go reads no text as no bytes; the format `byte` of custom resources refuses it. */
const NO_BYTES = 'must be of type byte: ""';

/** @param old what was stored: faults of custom resources that were there already are no faults */
function schemaProblems(object: JsonObject, type: ResourceType, old?: JsonObject): readonly Cause[] {
  const problems = validateSchema(object, wholeSchema(type), type.custom ? old : undefined);
  return type.custom ? problems : problems.filter(({ message }) => !message.endsWith(NO_BYTES));
}

const METADATA_ALONE: Schema = { type: 'object', properties: { metadata: OBJECT_META } };

/**
 * Built-in kinds are decoded into Go structs, and of custom resources the metadata: a value of the wrong type does not come as
 * far as validation.
 */
function refuseWrongTypes(object: JsonObject, type: ResourceType): void {
  const problems = type.custom
    ? validateSchema({ metadata: object.metadata ?? {} }, METADATA_ALONE)
    : schemaProblems(object, type);
  const wrong = problems.find(({ reason }) => reason === 'FieldValueTypeInvalid');
  if (wrong === undefined) return;
  throw badRequest(`${cannotBeHandled(type)}json: cannot unmarshal field ${wrong.field}: ${wrong.message}`);
}

/** @throws ApiFailure 422 with everything that is wrong */
export function validateCreate(object: ApiObject, type: ResourceType): void {
  refuse(object, type, [
    ...metadataProblems(object, type),
    ...valueProblems(object, undefined, type),
    ...type.strategy.validate(object),
  ]);
}

/** @throws ApiFailure 422 with everything that is wrong */
export function validateUpdate(object: ApiObject, old: ApiObject, type: ResourceType): void {
  refuse(object, type, [
    ...metadataProblems(object, type),
    ...metadataUpdateProblems(object, old),
    ...valueProblems(object, old, type),
    ...type.strategy.validate(object, old),
    ...type.strategy.validateUpdate(object, old),
  ]);
}

/** Rules do not run on what is too wrong for them: then a cause says so. */
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

/** `metadata.generation` of the object as it is to be stored. */
export function withGeneration(
  object: ApiObject,
  old: ApiObject | undefined,
  { strategy, hasStatus }: ResourceType,
): ApiObject {
  if (!strategy.countsGenerations) {
    return old === undefined
      ? withMeta(object, { generation: undefined })
      : withMeta(object, { generation: old.metadata.generation });
  }
  const before = old?.metadata.generation ?? 0;
  const generation = old === undefined ? 1 : before + (sameWishes(object, old, hasStatus) ? 0 : 1);
  return withMeta(object, { generation });
}

/** Whether both ask for the same: without a status subresource, `status` is a field like any other. */
function sameWishes(a: ApiObject, b: ApiObject, hasStatus: boolean): boolean {
  const ignored = ['metadata', 'apiVersion', 'kind', ...(hasStatus ? ['status'] : [])];
  const rest = (object: ApiObject) =>
    Object.fromEntries(Object.entries(toJson(object)).filter(([key]) => !ignored.includes(key)));
  return isEqual(rest(a), rest(b));
}

/** The object with `status` of another, or without any. */
export function withStatusOf(object: ApiObject, other: ApiObject | undefined): ApiObject {
  const status = other === undefined ? undefined : field(other, 'status');
  const rest = withoutField(object, 'status');
  return status === undefined ? rest : { ...rest, status };
}

import { isEqual, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../admission/json.ts';
import { field, ofJson, toJson, withMeta, withoutField, type ApiObject } from '../api-object.ts';
import { badRequest, invalid, type Cause } from '../failure.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { applyDefaults } from '../schema/default.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { prune } from '../schema/prune.ts';
import { checkRules } from '../schema/rules.ts';
import { validateSchema } from '../schema/validate.ts';
import type { Notes } from './context.ts';
import { metadataProblems, metadataUpdateProblems } from './metadata.ts';
import type { FieldValidation } from './options.ts';

/** The object without what its schema does not know, and with its defaults. */
export function complete(object: ApiObject, type: ResourceType): ApiObject {
  return withDefaults(prune(toJson(object), wholeSchema(type)).value, type);
}

function withDefaults(value: JsonValue, type: ResourceType): ApiObject {
  const object = ofJson(applyDefaults(value, wholeSchema(type)));
  return type.strategy.completeDefaults?.(object) ?? object;
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
  if (!type.custom) refuseWrongTypes(typed, type);
  return withDefaults(known, type);
}

const shown = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));

/** The text names each unknown field, once; more than a few would not fit a header. */
export function reportUnknown(
  unknown: readonly string[],
  type: ResourceType,
  fieldValidation: FieldValidation,
  notes: Notes,
): void {
  if (unknown.length === 0 || fieldValidation === 'Ignore') return;
  const texts = unknown.map((path) => `unknown field ${JSON.stringify(path)}`);
  if (fieldValidation === 'Warn') {
    for (const text of texts) notes.warn(text);
    return;
  }
  throw badRequest(`${cannotBeHandled(type)}strict decoding error: ${texts.join(', ')}`);
}

const cannotBeHandled = ({ kind, version }: ResourceType) =>
  `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: `;

function withType(value: unknown, type: ResourceType): JsonObject {
  if (!isJsonObject(value)) throw badRequest('the body of the request is not an object');
  const object = value; // JSON that was parsed
  const apiVersion = apiVersionOf(type);
  const given = { apiVersion: ownValue(object, 'apiVersion') ?? '', kind: ownValue(object, 'kind') ?? '' };
  if (type.custom && given.kind === '') {
    throw badRequest(`Object 'Kind' is missing in '${JSON.stringify(object)}'`);
  }
  if (given.apiVersion !== '' && given.apiVersion !== apiVersion) {
    throw badRequest(
      `the API version in the data (${shown(given.apiVersion)}) does not match the expected API version (${apiVersion})`,
    );
  }
  if (given.kind !== '' && given.kind !== type.kind) {
    throw badRequest(
      `${shown(given.kind)} in version ${JSON.stringify(type.version)} cannot be handled as a ${type.kind}: ` +
        `no kind ${JSON.stringify(given.kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme`,
    );
  }
  const metadata = ownValue(object, 'metadata');
  if (metadata !== undefined && metadata !== null && !isJsonObject(metadata)) {
    throw badRequest(
      `${cannotBeHandled(type)}json: cannot unmarshal into ObjectMeta: metadata is not an object`,
    );
  }
  return { ...object, apiVersion, kind: type.kind, metadata: isJsonObject(metadata) ? metadata : {} };
}

/** Go reads no text as no bytes; the format `byte` of custom resources refuses it. */
const NO_BYTES = 'must be of type byte: ""';

function schemaProblems(object: JsonObject, type: ResourceType): readonly Cause[] {
  const problems = validateSchema(object, wholeSchema(type));
  return type.custom ? problems : problems.filter(({ message }) => !message.endsWith(NO_BYTES));
}

/** Built-in kinds are decoded into Go structs: a value of the wrong type does not come as far as validation. */
function refuseWrongTypes(object: JsonObject, type: ResourceType): void {
  const wrong = schemaProblems(object, type).find(({ reason }) => reason === 'FieldValueTypeInvalid');
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
    ...type.strategy.validate(object),
    ...type.strategy.validateUpdate(object, old),
  ]);
}

/** Rules run only on what the schema accepts: they may rely on it. */
function valueProblems(object: ApiObject, old: ApiObject | undefined, type: ResourceType): readonly Cause[] {
  const problems = schemaProblems(toJson(object), type);
  if (problems.length > 0) return problems;
  return checkRules(toJson(object), old === undefined ? undefined : toJson(old), type.schema);
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

import { isEqual, type JsonObject } from '../../../json/json.ts';
import { field, toJson, withMeta, withoutField, type ApiObject } from '../api-object.ts';
import { invalid, type Cause } from '../failure.ts';
import type { ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { checkRules, rulesSkipped } from '../schema/rules/rules.ts';
import { validateSchema } from '../schema/validate.ts';
import { metadataProblems, metadataUpdateProblems } from './metadata.ts';

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

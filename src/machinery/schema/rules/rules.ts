import { CelError, celOptional, type CelProgram, compileCel } from '../../../cel/cel.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  memoizeWeak,
} from '../../../json/json.ts';
import type { Cause } from '../../failure.ts';
import { duplicateValue, forbiddenValue, invalidValue, OMITTED, requiredValue } from '../causes.ts';
import {
  anywhere,
  furtherSchema,
  oldField,
  oldItem,
  property,
  type Schema,
  type ValidationRule,
  valuesBelow,
} from '../schema.ts';
import { fieldName } from '../../../cel/types/schema-type.ts';
import { celNumber, celValue } from '../../../cel/values/values.ts';
import { stored, typedList } from '../../../cel/values/typed-lists.ts';

const toDuration = compileCel('duration(text)', ['text']);

const toTimestamp = compileCel('timestamp(text)', ['text']);

/** The value as `self` of the rules at its schema. */
function celSelf(value: JsonValue, schema: Schema): unknown {
  if (value === null) return null;
  if (typeof value === 'string') return celText(value, schema);
  if (typeof value === 'number' || typeof value === 'bigint') {
    return schema.type === 'number' ? Number(value) : celNumber(value);
  }
  if (isJsonArray(value)) {
    const { items } = schema;
    if (items === undefined) return celValue(value);
    const list = value.map((item) => celSelf(item, items));
    const listType = schema['x-kubernetes-list-type'];
    if (listType !== 'set' && listType !== 'map') return stored(list);
    const keys = (schema['x-kubernetes-list-map-keys'] ?? []).map(fieldName);
    return typedList(list, { keys: listType === 'map' ? keys : undefined, isStored: true });
  }
  return isJsonObject(value) ? celFields(value, schema) : value;
}

function celFields(object: JsonObject, schema: Schema): unknown {
  const { properties } = schema;
  const further = furtherSchema(schema);
  if (properties === undefined && further === undefined) return celValue(object);
  const fields = new Map<string, unknown>();
  for (const [key, value] of Object.entries(object)) {
    const own = property(schema, key);
    if (own !== undefined) fields.set(fieldName(key), celSelf(value, own));
    else if (further !== undefined) fields.set(key, celSelf(value, further));
    else if (schema['x-kubernetes-embedded-resource'] === true) fields.set(key, celValue(value));
  }
  return stored(fields);
}

function celText(text: string, { type, format }: Schema): unknown {
  if (type !== 'string') return text;
  switch (format) {
    case 'byte':
      return new Uint8Array(Buffer.from(text, 'base64'));
    case 'duration':
      return toDuration.run({ text });
    case 'date':
      return toTimestamp.run({ text: `${text}T00:00:00Z` });
    case 'date-time':
      return toTimestamp.run({ text });
    case undefined:
    default:
      return text;
  }
}

interface Place {
  readonly value: JsonValue;
  /** Undefined on create, for new values, and where the old value cannot be found. */
  readonly old: JsonValue | undefined;
  readonly schema: Schema;
  readonly path: string;
  /** If the value is known to be unchanged, rules without `oldSelf` are not enforced (ratcheting, 1.33). */
  readonly isUnchanged: () => boolean;
}

/** The CEL rules that the object violates. Call it only if `rulesSkipped` returns nothing. */
export function checkRules(
  object: JsonObject,
  old: JsonObject | undefined,
  schema: Schema,
): readonly Cause[] {
  return check({ value: object, old, schema: rootOf(schema), path: '', isUnchanged: () => false });
}

const STRING: Schema = { type: 'string' };

const NAMES: Schema = { type: 'object', properties: { name: STRING, generateName: STRING } };

/** At the root, rules see apiVersion, kind and the names in metadata, even if the schema omits them. */
const rootOf = memoizeWeak((schema: Schema): Schema => {
  const properties = { ...schema.properties, apiVersion: STRING, kind: STRING, metadata: NAMES };
  return { ...schema, properties };
});

const BLOCKING = [
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
];

/** The cause that replaces rule results if the object's shape prevents evaluation; undefined if the rules can run. */
export function rulesSkipped(schema: Schema, causes: readonly Cause[]): Cause | undefined {
  if (!hasRules(schema) || !causes.some(({ reason }) => BLOCKING.includes(reason))) return undefined;
  const detail =
    'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';
  return invalidValue('', null, detail);
}

const hasRules = anywhere((schema) => (schema['x-kubernetes-validations']?.length ?? 0) > 0);

function check(place: Place): readonly Cause[] {
  if (!hasRules(place.schema) || place.value === null) return [];
  return [...checkHere(place), ...children(place).flatMap(check)];
}

/** A value that cannot be correlated counts as unchanged if its whole parent is. */
function children(parent: Place): readonly Place[] {
  const { schema } = parent;
  return valuesBelow(parent.value, schema, parent.path).map(({ value, key, ...below }) => {
    const old =
      typeof key === 'number' ? oldItem(schema, parent.old, value) : oldField(schema, parent.old, key);
    const isUnchanged = () => parent.isUnchanged() || (old !== undefined && isEqual(value, old));
    return { ...below, value, old, isUnchanged };
  });
}

function checkHere(place: Place): readonly Cause[] {
  const rules = rulesOf(place.schema);
  if (rules.length === 0) return [];
  try {
    const self = celSelf(place.value, place.schema);
    const oldSelf = place.old === undefined ? undefined : celSelf(place.old, place.schema);
    return rules.flatMap((rule) => checkRule(rule, place, self, oldSelf));
  } catch (error) {
    return rules.map(({ rule }) => evaluationFailed(place, rule, error));
  }
}

interface CompiledRule {
  readonly rule: ValidationRule;
  readonly program: CelProgram | CelError;
  readonly message: CelProgram | undefined;
  readonly isTransition: boolean;
}

function checkRule(compiled: CompiledRule, place: Place, self: unknown, oldSelf: unknown): readonly Cause[] {
  const { rule, program, isTransition } = compiled;
  if (program instanceof CelError) {
    return [invalidValue(place.path, typeShown(place), `rule compile error: ${program.message}`)];
  }
  const optional = rule.optionalOldSelf === true;
  if (isTransition && oldSelf === undefined && !optional) return [];
  try {
    const result = program.run({ self, oldSelf: optional ? celOptional(oldSelf) : oldSelf });
    if (result === true || (!isTransition && place.isUnchanged())) return [];
    return [ruleBroken(compiled, place, self, oldSelf)];
  } catch (error) {
    return [evaluationFailed(place, rule, error)];
  }
}

function ruleBroken({ rule, message }: CompiledRule, place: Place, self: unknown, oldSelf: unknown): Cause {
  const detail =
    writtenMessage(message, self, oldSelf) ?? messageOf(rule, `failed rule: ${rule.rule.trim()}`);
  const field = `${place.path}${rule.fieldPath?.trim() ?? ''}`.replace(/^\./, '');
  const { value } = place;
  const shown = isJsonObject(value) || isJsonArray(value) ? OMITTED : value;
  switch (rule.reason) {
    case 'FieldValueForbidden':
      return forbiddenValue(field, detail);
    case 'FieldValueRequired':
      return requiredValue(field, detail);
    case 'FieldValueDuplicate':
      return duplicateValue(field, shown);
    case undefined:
    default:
      return invalidValue(field, shown, detail);
  }
}

/** The result of messageExpression; undefined if there is none, it fails, or the result is not a usable message. */
function writtenMessage(
  program: CelProgram | undefined,
  self: unknown,
  oldSelf: unknown,
): string | undefined {
  try {
    const text = program?.run({ self, oldSelf });
    const trimmed = typeof text === 'string' ? text.trim() : '';
    return trimmed === '' || trimmed.includes('\n') || trimmed.length > LONGEST_MESSAGE ? undefined : trimmed;
  } catch {
    return undefined;
  }
}

/** The API server counts bytes; messages are mostly ASCII. */
const LONGEST_MESSAGE = 5 * 1024;

const messageOf = ({ message = '' }: ValidationRule, otherwise: string) =>
  message === '' ? otherwise : message.trim();

function evaluationFailed(place: Place, rule: ValidationRule, error: unknown): Cause {
  const reason = error instanceof CelError ? error.message : 'internal error';
  const about = messageOf(rule, rule.rule.trim());
  const detail = reason.startsWith('no such overload')
    ? `'${reason}': call arguments did not match a supported operator, function or macro signature for rule: ${about}`
    : `${reason} evaluating rule: ${about}`;
  return invalidValue(place.path, typeShown(place), detail);
}

/** Shown where the API server prints the type instead of the value. */
const typeShown = ({ schema }: Place) => schema.type ?? '';

const rulesOf = memoizeWeak((schema: Schema): readonly CompiledRule[] =>
  (schema['x-kubernetes-validations'] ?? [])
    .filter(({ rule }) => rule.trim() !== '')
    .map((rule): CompiledRule => {
      const program = compileRule(rule.rule);
      const message = rule.messageExpression === undefined ? undefined : compileRule(rule.messageExpression);
      return {
        rule,
        program,
        message: message instanceof CelError ? undefined : message,
        isTransition: !(program instanceof CelError) && program.names.has('oldSelf'),
      };
    }),
);

export function compileRule(expression: string): CelProgram | CelError {
  try {
    return compileCel(expression, ['self', 'oldSelf'], { uniformLiterals: true });
  } catch (error) {
    return error instanceof CelError
      ? error
      : new CelError('the CEL expression does not compile', { cause: error });
  }
}

import { CelError, celOptional, compileCel, type CelProgram } from '../../../cel/cel.ts';
import { isEqual, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { Cause } from '../failure.ts';
import { duplicateValue, forbiddenValue, invalidValue, OMITTED, requiredValue } from './causes.ts';
import { celSelf } from './cel-self.ts';
import {
  oldField,
  oldItem,
  type Schema,
  type ValidationRule,
  anywhere,
  furtherSchema,
  property,
} from './schema.ts';

/** A place in the object that has a schema, with what was there before. */
interface Place {
  readonly value: JsonValue;
  /** Undefined on create, for what is new, and where old and new cannot be told to be the same field. */
  readonly old: JsonValue | undefined;
  readonly schema: Schema;
  readonly path: string;
  /** Nothing here changed, as far as that can be told: rules about the new state alone do not count (ratcheting, 1.33). */
  readonly isUnchanged: () => boolean;
}

/**
 * The CEL rules (`x-kubernetes-validations`) that the object breaks. To be asked only about objects that `rulesSkipped` does
 * not speak of. Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel. Costs are limited for each rule, not for
 * all of them together.
 */
export function checkRules(
  object: JsonObject,
  old: JsonObject | undefined,
  schema: Schema,
): readonly Cause[] {
  return check({ value: object, old, schema: rootOf(schema), path: '', isUnchanged: () => false });
}

const STRING: Schema = { type: 'string' };
const NAMES: Schema = { type: 'object', properties: { name: STRING, generateName: STRING } };
const roots = new WeakMap<Schema, Schema>();

/** At the root rules see apiVersion, kind and of metadata the names, whatever the schema says of them. */
function rootOf(schema: Schema): Schema {
  const known = roots.get(schema);
  if (known !== undefined) return known;
  const properties = { ...schema.properties, apiVersion: STRING, kind: STRING, metadata: NAMES };
  const root = { ...schema, properties };
  roots.set(schema, root);
  return root;
}

const BLOCKING = [
  'FieldValueNotSupported',
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueTypeInvalid',
];

/**
 * The cause that stands in for the rules when the object is too wrong to ask them; undefined when they are to be asked.
 *
 * @param causes what `validateSchema` and the kind's own validation found
 */
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

function children(place: Place): readonly Place[] {
  const { value, old, schema, path } = place;
  if (isJsonArray(value)) {
    const { items } = schema;
    if (items === undefined) return [];
    return value.map((item, index) =>
      child(place, item, oldItem(schema, old, item), items, `${path}[${index}]`),
    );
  }
  if (!isJsonObject(value)) return [];
  const further = furtherSchema(schema);
  return Object.entries(value).flatMap(([key, field]) => {
    const own = property(schema, key);
    const before = oldField(schema, old, key);
    if (own !== undefined) return [child(place, field, before, own, path === '' ? key : `${path}.${key}`)];
    return further === undefined ? [] : [child(place, field, before, further, `${path}[${key}]`)];
  });
}

/** What cannot be told apart from other things is unchanged if all of its parent is. */
const child = (
  parent: Place,
  value: JsonValue,
  old: JsonValue | undefined,
  schema: Schema,
  path: string,
): Place => ({
  value,
  old,
  schema,
  path,
  isUnchanged: () => parent.isUnchanged() || (old !== undefined && isEqual(value, old)),
});

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
  /** Or why there is none. */
  readonly program: CelProgram | CelError;
  readonly message: CelProgram | undefined;
  /** It says something of `oldSelf`. */
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

/** What the messageExpression says; undefined when there is none, or it fails, or says nothing fit for a message. */
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

/** In bytes there; texts are mostly ASCII. */
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

/** Where the API server shows the type instead of the value. */
const typeShown = ({ schema }: Place) => schema.type ?? '';

const compiled = new WeakMap<Schema, readonly CompiledRule[]>();

function rulesOf(schema: Schema): readonly CompiledRule[] {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const rules = (schema['x-kubernetes-validations'] ?? [])
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
    });
  compiled.set(schema, rules);
  return rules;
}

/** A rule's expression, or why it does not compile. */
export function compileRule(expression: string): CelProgram | CelError {
  try {
    return compileCel(expression, ['self', 'oldSelf'], { uniformLiterals: true });
  } catch (error) {
    return error instanceof CelError
      ? error
      : new CelError('the expression does not compile', { cause: error });
  }
}

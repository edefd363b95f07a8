/** Parts of a JSON Schema as CEL validations, with the webhook's messages. */
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { explainErrors } from '../policy/schema/explain.ts';
import type { NativeExceptions } from './native-exceptions.ts';
import { generatedName, inWebhook, inWords, type NativeVariable } from './native-check.ts';

interface Place {
  /** The variable that contains the value in a list, or an empty list. */
  readonly variable: string;
  readonly keys: readonly string[];
}

export function compileNativeSchema(
  policy: CompiledPolicy,
  { guard }: NativeExceptions,
  problem: string | undefined,
) {
  const schema = policy.spec.validate?.schema as JsonValue | undefined; // JSON of the API server
  if (policy.schema === undefined || schema === undefined) return { checks: [], variables: [] };
  if (problem !== undefined) return { checks: [inWebhook('schema', problem)], variables: [] };
  const found = read(policy, schema);
  const validations = found.constraints.map(({ place, condition, ...constraint }) => ({
    expression: guard(`variables.${place.variable}.all(value, ${condition})`, 'schema'),
    message: messageOf(policy, place, constraint),
    reason: 'Forbidden' as const,
  }));
  const [unsaid] = found.unsaid;
  const left = unsaid === undefined ? [] : [inWebhook('schema', unsaid)];
  if (validations.length === 0) return { checks: left, variables: [] };
  const check = unsaid === undefined ? 'schema' : 'schema, in part';
  const checks = [{ check, by: 'APIServer', part: 'policies', validations } as const, ...left];
  return { checks, variables: found.variables };
}

interface Found {
  readonly constraints: readonly (Constraint & { readonly place: Place })[];
  readonly variables: readonly NativeVariable[];
  readonly unsaid: readonly string[];
}

function read(policy: CompiledPolicy, schema: JsonValue): Found {
  const constraints: (Constraint & { readonly place: Place })[] = [];
  const variables: NativeVariable[] = [];
  const unsaid: string[] = [];
  const placeOf = (keys: readonly string[], expression: string): Place => {
    const variable = generatedName(policy, `gatehouse_schema_${variables.length}`);
    variables.push({ name: variable, expression });
    return { keys, variable };
  };
  const visit = (here: JsonValue, place: Place, condition: string | undefined): void => {
    const when = (constraint: Constraint): Constraint =>
      condition === undefined
        ? constraint
        : { ...constraint, condition: `!(${condition}) || ${constraint.condition}` };
    if (!isJsonObject(here)) {
      if (here === false)
        constraints.push({ ...when({ keyword: 'false schema', condition: 'false', params: {} }), place });
      return;
    }
    for (const keyword of unsaidKeyword(here)) unsaid.push(whyUnsaid(place, keyword));
    constraints.push(...constraintsOf(here, 'value').map((one) => ({ ...when(one), place })));
    for (const part of isJsonArray(here.allOf) ? here.allOf : []) visit(part, place, condition);
    visitBranches(here, place, condition);
    if (!isJsonObject(here.properties)) return;
    for (const [key, child] of Object.entries(here.properties)) {
      const name = JSON.stringify(key);
      const guard = condition === undefined ? '' : ` && (${condition})`;
      const inside = `type(value) == map && ${name} in value${guard}`;
      visit(
        child,
        placeOf([...place.keys, key], `variables.${place.variable}.map(value, ${inside}, value[${name}])`),
        undefined,
      );
    }
  };
  const visitBranches = (here: JsonObject, place: Place, outer: string | undefined): void => {
    if (here.if === undefined) return;
    const test = predicateOf(here.if, 'value');
    if (test === undefined) return void unsaid.push(whyUnsaid(place, 'if'));
    const and = (condition: string) => (outer === undefined ? condition : `(${outer}) && (${condition})`);
    if (here.then !== undefined) visit(here.then, place, and(test));
    if (here.else !== undefined) visit(here.else, place, and(`!(${test})`));
  };
  const root = 'object != null && request.operation in ["CREATE", "UPDATE"] ? [dyn(object)] : []';
  visit(schema, placeOf([], root), undefined);
  return { constraints, variables, unsaid };
}

const whyUnsaid = ({ keys }: Place, keyword: string): string =>
  `CEL cannot express ${keyword} ${keys.length === 0 ? 'of the object' : `of ${keys.join('.')}`} exactly`;

function messageOf(
  policy: CompiledPolicy,
  { keys }: Place,
  { keyword, params, message }: Omit<Constraint, 'condition'>,
): string {
  const pointer = keys.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  const error = { instancePath: pointer, schemaPath: '', keyword, params };
  const [flaw] = explainErrors([{ ...error, ...(message === undefined ? {} : { message }) }], {});
  return inWords(policy, flaw?.field ?? '', flaw?.message ?? '');
}

/** A CEL condition that is true or false for every JSON value, and how Ajv reports a violation. */
interface Constraint {
  readonly keyword: string;
  readonly condition: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Absent if the webhook has its own message for the keyword. */
  readonly message?: string;
}

/** Keywords without an effect on the result. */
const ANNOTATIONS = [
  ...['$schema', '$id', '$comment', '$defs', 'definitions', 'title', 'description', 'default', 'examples'],
  ...['deprecated', 'readOnly', 'writeOnly'],
];

/** Keywords that apply schemas to the same value, or to its fields. */
const APPLICATORS = ['properties', 'allOf', 'if', 'then', 'else'];

type Compile = (value: JsonValue, at: string) => readonly Constraint[] | undefined;

/** @returns undefined if CEL cannot express the keyword with this value */
const KEYWORDS: Readonly<Record<string, Compile>> = {
  type: (value, at) => {
    const names = (isJsonArray(value) ? value : [value]).filter((name) => typeof name === 'string');
    const conditions = names.map((name) => TYPES[name]?.(at));
    if (conditions.includes(undefined)) return undefined;
    return [
      { keyword: 'type', condition: `(${conditions.join(' || ')})`, params: { type: names.join(',') } },
    ];
  },
  enum: (value, at) => {
    const allowed = isJsonArray(value) ? value : [];
    const conditions = allowed.map((one) => equals(one, at));
    if (conditions.includes(undefined)) return undefined;
    const condition = `(${conditions.join(' || ')})`;
    return [{ keyword: 'enum', condition, params: { allowedValues: allowed } }];
  },
  const: (value, at) => {
    const condition = equals(value, at);
    return condition === undefined
      ? undefined
      : [{ keyword: 'const', condition, params: { allowedValue: value } }];
  },
  pattern: (value, at) => [
    {
      keyword: 'pattern',
      condition: `(type(${at}) != string || ${at}.matches(${JSON.stringify(value)}))`,
      params: { pattern: value },
    },
  ],
  minLength: sized('minLength', 'string', 'characters'),
  maxLength: sized('maxLength', 'string', 'characters'),
  minItems: sized('minItems', 'list', 'items'),
  maxItems: sized('maxItems', 'list', 'items'),
  minProperties: sized('minProperties', 'map', 'properties'),
  maxProperties: sized('maxProperties', 'map', 'properties'),
  minimum: bounded('>='),
  maximum: bounded('<='),
  exclusiveMinimum: bounded('>'),
  exclusiveMaximum: bounded('<'),
  required: (value, at) =>
    (isJsonArray(value) ? value : []).map((name) => ({
      keyword: 'required',
      condition: `(type(${at}) != map || ${JSON.stringify(name)} in ${at})`,
      params: { missingProperty: name },
    })),
  dependentRequired: (value, at) =>
    Object.entries(isJsonObject(value) ? value : {}).flatMap(([property, names]) =>
      (isJsonArray(names) ? names : []).map((name) => ({
        keyword: 'dependentRequired',
        condition: `(type(${at}) != map || !(${JSON.stringify(property)} in ${at}) || ${JSON.stringify(name)} in ${at})`,
        params: { property, missingProperty: name },
      })),
    ),
  not: (value, at) => {
    const test = predicateOf(value, at);
    return test === undefined ? undefined : [{ keyword: 'not', condition: `!(${test})`, params: {} }];
  },
};

/** Includes integers beyond 2^53, which JSON can contain as a double. */
const isInteger = (at: string): string =>
  `type(${at}) == double && (${at} >= 9007199254740992.0 || ${at} <= -9007199254740992.0 || double(int(${at})) == ${at})`;

const TYPES: Readonly<Record<string, (at: string) => string>> = {
  string: (at) => `type(${at}) == string`,
  boolean: (at) => `type(${at}) == bool`,
  array: (at) => `type(${at}) == list`,
  object: (at) => `type(${at}) == map`,
  null: (at) => `${at} == null`,
  number: (at) => `type(${at}) == int || type(${at}) == double`,
  integer: (at) => `type(${at}) == int || ${isInteger(at)}`,
};

/** Not for larger numbers: the webhook compares them as doubles, and CEL exactly. */
function equals(value: JsonValue, at: string): string | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean')
    return `${at} == ${JSON.stringify(value)}`;
  if (typeof value !== 'number' || (Number.isInteger(value) && !Number.isSafeInteger(value)))
    return undefined;
  return `${at} == ${doubleOf(value)}`;
}

const doubleOf = (value: number): string => (/[.e]/.test(String(value)) ? String(value) : `${value}.0`);

function sized(keyword: string, type: string, what: string): Compile {
  const [comparison, than] = keyword.startsWith('min') ? ['>=', 'fewer'] : ['<=', 'more'];
  return (given, at) => {
    const limit = typeof given === 'number' ? given : 0;
    return [
      {
        keyword,
        condition: `(type(${at}) != ${type} || ${at}.size() ${comparison} ${limit})`,
        params: { limit },
        message: `must NOT have ${than} than ${limit} ${what}`,
      },
    ];
  };
}

/** The webhook compares doubles. */
function bounded(comparison: '>=' | '<=' | '>' | '<'): Compile {
  return (limit, at) =>
    typeof limit !== 'number'
      ? undefined
      : [
          {
            keyword: 'minimum',
            condition: `(!(${TYPES.number?.(at) ?? ''}) || double(${at}) ${comparison} ${doubleOf(limit)})`,
            params: {},
            message: `must be ${comparison} ${limit}`,
          },
        ];
}

function unsaidKeyword(schema: JsonObject): readonly string[] {
  return Object.entries(schema).flatMap(([keyword, value]) => {
    if (ANNOTATIONS.includes(keyword) || APPLICATORS.includes(keyword)) return [];
    return KEYWORDS[keyword]?.(value, 'value') === undefined ? [keyword] : [];
  });
}

/** The constraints of the keywords that CEL can express, without keywords that apply other schemas. */
const constraintsOf = (schema: JsonObject, at: string): readonly Constraint[] =>
  Object.entries(schema).flatMap(([keyword, value]) => KEYWORDS[keyword]?.(value, at) ?? []);

function predicateOf(schema: JsonValue, at: string): string | undefined {
  if (!isJsonObject(schema)) return schema === false ? 'false' : 'true';
  if (unsaidKeyword(schema).length > 0) return undefined;
  const { properties, allOf, if: test, then = true, else: otherwise = true } = schema;
  const fields = Object.entries(isJsonObject(properties) ? properties : {}).map(([key, child]) => {
    const name = JSON.stringify(key);
    const inner = predicateOf(child, `${at}[${name}]`);
    return inner === undefined ? undefined : `(type(${at}) != map || !(${name} in ${at}) || ${inner})`;
  });
  const parts = [
    ...constraintsOf(schema, at).map(({ condition }) => condition),
    ...fields,
    ...(isJsonArray(allOf) ? allOf : []).map((part) => predicateOf(part, at)),
    ...(test === undefined ? [] : [choice([test, then, otherwise].map((part) => predicateOf(part, at)))]),
  ];
  if (parts.includes(undefined)) return undefined;
  return parts.length === 0 ? 'true' : `(${parts.join(' && ')})`;
}

const choice = ([test, then, otherwise]: readonly (string | undefined)[]): string | undefined =>
  test === undefined || then === undefined || otherwise === undefined
    ? undefined
    : `(${test} ? ${then} : ${otherwise})`;

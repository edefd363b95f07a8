/** Parts of a JSON Schema as CEL validations, in the words of the webhook. */
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { explainErrors } from '../policy/schema/explain.ts';
import type { NativeExceptions } from './native-exceptions.ts';
import { generatedName, inWebhook, inWords, type NativeCheck, type NativeVariable } from './native-check.ts';
import { unsaidKeyword, constraintsOf, predicateOf, type Constraint } from './schema-constraints.ts';

/** The checks of the schema, and the variables that their expressions use. */
export interface NativeSchema {
  readonly checks: readonly NativeCheck[];
  readonly variables: readonly NativeVariable[];
}

/** One place of the schema. */
interface Place {
  /** The variable with the values there: a list of one value, or none. */
  readonly variable: string;
  readonly keys: readonly string[];
}

export function compileNativeSchema(
  policy: CompiledPolicy,
  { guard }: NativeExceptions,
  problem: string | undefined,
): NativeSchema {
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
  const compiled = (check: string): NativeCheck => ({
    check,
    by: 'APIServer',
    part: 'policies',
    validations,
  });
  const checks = [
    ...(validations.length === 0 ? [] : [compiled(unsaid === undefined ? 'schema' : 'schema, in part')]),
    ...(unsaid === undefined ? [] : [inWebhook('schema', unsaid)]),
  ];
  return { checks, variables: validations.length === 0 ? [] : found.variables };
}

interface Found {
  readonly constraints: readonly (Constraint & { readonly place: Place })[];
  readonly variables: readonly NativeVariable[];
  /** Why the webhook must check the schema too. */
  readonly unsaid: readonly string[];
}

/** The constraints in the order in which the webhook reports them. */
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
  `CEL states ${keyword} ${keys.length === 0 ? 'of the object' : `of ${keys.join('.')}`} in other words, or not at all`;

/** The webhook's own words. */
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

import { CelError, type CelVariableType } from '../../cel/cel.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { record, records, section, text, texts } from '../fields.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import type { Schema } from '../schema/schema.ts';
import { compilePolicy, type Expression } from './compile-policy.ts';

export interface ExpressionWarning {
  /** e.g. `spec.validations[0].expression`. */
  readonly fieldRef: string;
  readonly warning: string;
}

/**
 * Checks the validations of a ValidatingAdmissionPolicy against the schemas of the kinds that its rules name, as
 * kube-controller-manager does. It skips rules with a star, subresources, and kinds that are not served.
 *
 * @see k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go
 */
export function typeWarnings(spec: JsonObject, registry: ResourceRegistry): readonly ExpressionWarning[] {
  const kinds = kindsOf(spec, registry);
  if (kinds.length === 0) return [];
  const params = paramType(spec, registry);
  const byKind = kinds.map((type) => {
    const object = typeOf(type);
    const { validations } = compilePolicy(spec, { object, oldObject: object, ...params });
    return { kind: `${type.group}/${type.version}, Kind=${type.kind}`, validations };
  });
  const warningsOf = (
    expressionIn: (index: number) => readonly (readonly [string, Expression | undefined])[],
  ) =>
    records(spec, 'validations').flatMap((_validation, index): readonly ExpressionWarning[] => {
      const found = expressionIn(index).flatMap(([kind, expression]) =>
        expression?.program instanceof CelError
          ? [{ path: expression.path, said: `${kind}: ${explain(expression.text, expression.program)}` }]
          : [],
      );
      const [first] = found;
      return first === undefined
        ? []
        : [{ fieldRef: first.path, warning: found.map(({ said }) => said).join('\n') }];
    });
  return [
    ...warningsOf((index) => byKind.map((one) => [one.kind, one.validations[index]?.expression])),
    ...warningsOf((index) => byKind.map((one) => [one.kind, one.validations[index]?.messageExpression])),
  ];
}

/** Sorted by their text, without duplicates. */
function kindsOf(spec: JsonObject, registry: ResourceRegistry): readonly ResourceType[] {
  const isPlain = (names: readonly string[]) => !names.some((name) => name.includes('*'));
  const types = records(section(spec, 'matchConstraints'), 'resourceRules').flatMap((rule) => {
    const [groups, versions, resources] = ['apiGroups', 'apiVersions', 'resources'].map((field) =>
      texts(rule, field),
    );
    if (groups === undefined || versions === undefined || resources === undefined) return [];
    if (![groups, versions, resources].every(isPlain)) return [];
    return groups.flatMap((group) =>
      versions.flatMap((version) =>
        resources.flatMap((resource) => registry.find(group, version, resource) ?? []),
      ),
    );
  });
  const keyOf = ({ group, version, kind }: ResourceType) => `${group}/${version}, Kind=${kind}`;
  return [...new Set(types)].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

function paramType(spec: JsonObject, registry: ResourceRegistry): Readonly<Record<string, CelVariableType>> {
  const kind = record(spec, 'paramKind');
  if (kind === undefined) return {};
  const type = registry.findKind(text(kind, 'apiVersion'), text(kind, 'kind'));
  return { params: type === undefined ? 'dyn' : typeOf(type) };
}

const known = new WeakMap<ResourceType, JsonObject>();

/** The same schema for the same type: the types of the expressions are cached by it. */
function typeOf(type: ResourceType): CelVariableType {
  const schema = known.get(type) ?? closed(type.schema);
  known.set(type, schema);
  return { schema };
}

/** The checker knows the declared fields only, also where others are preserved. */
function closed(schema: Schema): JsonObject {
  const declared = Object.entries(schema).filter(([key]) => key !== 'x-kubernetes-preserve-unknown-fields');
  const entries = declared.map(([key, value]): readonly [string, JsonValue] => {
    if (key === 'properties')
      return [
        key,
        Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, one]) => [name, closed(one)])),
      ];
    const isSchema = key === 'items' || key === 'additionalProperties';
    return [key, isSchema && isJsonObject(value) ? closed(value) : (value as JsonValue)]; // a schema is JSON
  });
  // A date-time is a timestamp here, although it is a string in a request.
  const isTime = schema.type === 'string' && schema.format === 'date-time';
  return { ...Object.fromEntries(entries), ...(isTime ? { type: 'timestamp' } : {}) };
}

/** As cel-go prints an error. */
function explain(source: string, { message: own, position, unknown }: CelError): string {
  const { line, column } = position ?? { line: 1, column: 1 };
  const message = unknown?.kind === 'field' ? `undefined field '${unknown.name}'` : own;
  const shown = source.split('\n')[line - 1] ?? '';
  return `ERROR: <input>:${line}:${column}: ${message}\n | ${shown}\n | ${'.'.repeat(column - 1)}^\n`;
}

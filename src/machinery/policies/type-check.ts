import { CelError, type CelVariableType } from '../../cel/cel.ts';
import { isJsonObject, type JsonObject, type JsonValue, memoizeWeak } from '../../json/json.ts';
import { record, records, section, text, texts } from '../fields.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import type { Schema } from '../schema/schema.ts';
import { compilePolicy } from './compile-policy.ts';

export interface ExpressionWarning {
  readonly fieldRef: string;
  readonly warning: string;
}

/** Checks validations against the schemas of the kinds in their rules, like kube-controller-manager (typechecking.go). */
export function typeWarnings(spec: JsonObject, registry: ResourceRegistry): readonly ExpressionWarning[] {
  const kinds = kindsOf(spec, registry);
  if (kinds.length === 0) return [];
  const params = paramType(spec, registry);
  const byKind = kinds.map((type) => {
    const object = typeOf(type);
    const { validations } = compilePolicy(spec, { object, oldObject: object, ...params });
    return { kind: kindText(type), validations };
  });
  return (['expression', 'messageExpression'] as const).flatMap((field) =>
    records(spec, 'validations').flatMap((_validation, index): readonly ExpressionWarning[] => {
      const found = byKind.flatMap(({ kind, validations }) => {
        const expression = validations[index]?.[field];
        return expression?.program instanceof CelError
          ? [{ path: expression.path, said: `${kind}: ${explain(expression.text, expression.program)}` }]
          : [];
      });
      const [first] = found;
      return first === undefined
        ? []
        : [{ fieldRef: first.path, warning: found.map(({ said }) => said).join('\n') }];
    }),
  );
}

function kindsOf(spec: JsonObject, registry: ResourceRegistry): readonly ResourceType[] {
  const isPlain = (names: readonly string[]) => !names.some((name) => name.includes('*'));
  const types = records(section(spec, 'matchConstraints'), 'resourceRules').flatMap((rule) => {
    const [groups, versions, resources] = [
      texts(rule, 'apiGroups'),
      texts(rule, 'apiVersions'),
      texts(rule, 'resources'),
    ];
    if (![groups, versions, resources].every(isPlain)) return [];
    return groups.flatMap((group) =>
      versions.flatMap((version) =>
        resources.flatMap((resource) => registry.find(group, version, resource) ?? []),
      ),
    );
  });
  return [...new Set(types)].sort((a, b) => (kindText(a) < kindText(b) ? -1 : 1));
}

const kindText = ({ group, version, kind }: ResourceType) => `${group}/${version}, Kind=${kind}`;

function paramType(spec: JsonObject, registry: ResourceRegistry): Readonly<Record<string, CelVariableType>> {
  const kind = record(spec, 'paramKind');
  if (kind === undefined) return {};
  const type = registry.findKind(text(kind, 'apiVersion'), text(kind, 'kind'));
  return { params: type === undefined ? 'dyn' : typeOf(type) };
}

/** The same schema for the same type: the types of the expressions are cached by it. */
const typeOf = memoizeWeak((type: ResourceType): CelVariableType => ({ schema: closed(type.schema) }));

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

function explain(source: string, { message: own, position, unknown }: CelError): string {
  const { line, column } = position ?? { line: 1, column: 1 };
  const message = unknown?.kind === 'field' ? `undefined field '${unknown.name}'` : own;
  const shown = source.split('\n')[line - 1] ?? '';
  return `ERROR: <input>:${line}:${column}: ${message}\n | ${shown}\n | ${'.'.repeat(column - 1)}^\n`;
}

/** Defaults as mutations of the API server: JSON patches, which work for every kind and never merge. */
import type { FieldPath, Segment } from '../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../json/json.ts';
import type { CompiledDefault, CompiledPolicy } from '../policy/compiled-policy.ts';
import { hasWildcard, splitResource } from '../policy/match/resource-pattern.ts';
import { orderProblem } from './change-order.ts';
import { inWebhook, type NativeCheck } from './native-check.ts';
import { expressionProblem } from './native-rules.ts';
import { governsExempt } from './release.ts';

/** All defaults of a policy have one judge: each sees what those before it have filled. */
export function defaultsCheck(
  policy: CompiledPolicy,
  others: readonly CompiledPolicy[],
): readonly NativeCheck[] {
  const { defaults } = policy;
  if (defaults.length === 0) return [];
  const reason =
    scopeProblem(policy) ??
    defaults.map((one) => valueProblem(policy, one)).find((problem) => problem !== undefined) ??
    orderProblem(policy, others);
  if (reason !== undefined) return [inWebhook('defaults', reason)];
  return [
    {
      ...{ check: 'defaults', by: 'APIServer', part: 'changes', validations: [] },
      mutations: defaults.map((one) => filling(one.path, valueOf(one))),
    },
  ];
}

function scopeProblem(policy: CompiledPolicy): string | undefined {
  const { apiGroups, apiVersions, resources, matchConditions, failurePolicy } = policy.match;
  if (governsExempt(policy)) return 'the API server asks no admission policy about some of its kinds';
  if (matchConditions.length > 0 && failurePolicy === 'Ignore')
    return 'failurePolicy Ignore lets requests pass whose matchConditions fail, and the API server would refuse them';
  const isOneKind =
    [apiGroups, apiVersions, resources].every((names) => names.length === 1 && !names.some(hasWildcard)) &&
    resources.every((one) => ['', 'status'].includes(splitResource(one).subResource));
  // A webhook's patch may name an unknown field of a built-in kind. For a policy's patch, the API server answers 500.
  return apiGroups.every(isOfCustomKinds) || isOneKind
    ? undefined
    : 'it names several kinds, and the API server refuses objects of built-in kinds if one has no such field';
}

/** Groups of built-in kinds have no dot, or belong to Kubernetes. */
const isOfCustomKinds = (group: string): boolean => group.includes('.') && !/(^|\.)k8s\.io$/.test(group);

function valueProblem(policy: CompiledPolicy, rule: CompiledDefault): string | undefined {
  if (rule.kind === 'value') return undefined;
  const { expression, path } = rule;
  if (expression.reads.params) return `the default of ${path.text} reads params`;
  // Other types may not become the same JSON: large integers, timestamps, and null, which fills nothing.
  if (expression.program.type !== 'string' && expression.program.type !== 'bool')
    return `the default of ${path.text} may be no text and no bool: write string(…) or bool(…)`;
  return expressionProblem(policy, [expression]);
}

const valueOf = (rule: CompiledDefault): string =>
  rule.kind === 'value' ? literal(rule.value) : `(${rule.expression.program.expression}\n)`;

/** Each value in a list or map is a dyn, because the API server refuses literals with several types. */
function literal(value: JsonValue): string {
  if (isJsonArray(value)) return `[${value.map((item) => `dyn(${literal(item)})`).join(', ')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: dyn(${literal(item)})`);
  return `{${entries.join(', ')}}`;
}

/** A value in the object, and the JSON pointer to it. Both are CEL. */
interface Place {
  readonly value: string;
  readonly pointer: readonly string[];
}

/** A list of patches, as `fill` in ../../json/field-path.ts: it never changes what is present. */
const filling = ({ segments }: FieldPath, value: string): string =>
  patches({ value: 'object', pointer: [] }, segments, value);

function patches(place: Place, segments: readonly Segment[], value: string): string {
  const [segment, ...rest] = segments;
  switch (segment?.kind) {
    case undefined:
      return '[]';
    case 'field':
      return inMap(place, segment.name, rest, value);
    case 'index': {
      const item = below(place, `[${segment.index}]`, JSON.stringify(`/${segment.index}`));
      const exists = `type(${place.value}) == list && ${place.value}.size() > ${segment.index}`;
      return `(${exists} ? ${patches(item, rest, value)} : [])`;
    }
    case 'each': {
      const index = `gatehouse_${segments.length}`;
      const item = below(place, `[${index}]`, `"/" + string(${index})`);
      const all = `lists.range(${place.value}.size()).map(${index}, ${patches(item, rest, value)}).flatten()`;
      return `(type(${place.value}) == list ? ${all} : [])`;
    }
  }
}

function inMap(place: Place, name: string, rest: readonly Segment[], value: string): string {
  const key = JSON.stringify(name);
  const child = below(
    place,
    `[${key}]`,
    JSON.stringify(`/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
  const added = nested(rest, value);
  const patch =
    added === undefined
      ? '[]'
      : `[JSONPatch{op: "add", path: ${child.pointer.join(' + ')}, value: ${added}}]`;
  return `(type(${place.value}) != map ? [] : !(${key} in ${place.value}) ? ${patch} : ${patches(child, rest, value)})`;
}

const below = ({ value, pointer }: Place, access: string, part: string): Place => ({
  value: `${value}${access}`,
  pointer: [...pointer, part],
});

/** The value with its parents; undefined if these include an element of a list: defaults create none. */
function nested(segments: readonly Segment[], value: string): string | undefined {
  return segments.reduceRight<string | undefined>(
    (inner, segment) =>
      segment.kind === 'field' && inner !== undefined
        ? `{${JSON.stringify(segment.name)}: dyn(${inner})}`
        : undefined,
    value,
  );
}

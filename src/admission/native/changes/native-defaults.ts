/** Defaults as mutations of the API server: JSON patches, which work for every kind and never merge. */
import type { FieldPath, Segment } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../../json/json.ts';
import type { CompiledDefault, CompiledPolicy } from '../../policy/compiled-policy.ts';
import { expressionProblem } from '../native-rules.ts';
import { exactTypeOf } from '../variable-types.ts';
import { below, memberOf, patch, ROOT, type Place } from './place.ts';

/** Why a default stays in the webhook; undefined: it does not. */
export function defaultProblem(policy: CompiledPolicy, rule: CompiledDefault): string | undefined {
  if (rule.kind === 'value') return undefined;
  const { expression, path } = rule;
  // Other types may not become the same JSON: large integers, timestamps, and null, which fills nothing.
  if (!['string', 'bool'].includes(exactTypeOf(policy, expression.program)))
    return `the default of ${path.text} may be no text and no bool: write string(…) or bool(…)`;
  return expressionProblem(policy, [expression], true);
}

/** A list of patches, as CEL. */
export const defaultPatches = (rule: CompiledDefault): string => filling(rule.path, valueOf(rule));

const valueOf = (rule: CompiledDefault): string =>
  rule.kind === 'value' ? literal(rule.value) : `(${rule.expression.program.expression}\n)`;

/** Each value in a list or map is a dyn, because the API server refuses literals with several types. */
function literal(value: JsonValue): string {
  if (isJsonArray(value)) return `[${value.map((item) => `dyn(${literal(item)})`).join(', ')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: dyn(${literal(item)})`);
  return `{${entries.join(', ')}}`;
}

/** As `fill` in ../../../json/field-path.ts: it never changes what is present. */
const filling = ({ segments }: FieldPath, value: string): string => patches(ROOT, segments, value);

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
  const child = memberOf(place, name);
  const added = nested(rest, value);
  const filled = added === undefined ? '[]' : `[${patch('add', child, added)}]`;
  return `(type(${place.value}) != map ? [] : !(${key} in ${place.value}) ? ${filled} : ${patches(child, rest, value)})`;
}

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

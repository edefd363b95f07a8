/** Words of CEL that no field can be called by. */
const RESERVED = new Set(
  'true false null in as break const continue else for function if import let loop package namespace return var void while'.split(
    ' ',
  ),
);

const ESCAPES: readonly (readonly [RegExp, string])[] = [
  [/__/g, '__underscores__'],
  [/\./g, '__dot__'],
  [/-/g, '__dash__'],
  [/\//g, '__slash__'],
];

/**
 * The name by which expressions call a property where the schema is known: `a-b` is `a__dash__b`, `in` is `__in__`.
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
 */
export function fieldName(property: string): string {
  if (RESERVED.has(property)) return `__${property}__`;
  return ESCAPES.reduce((name, [character, escape]) => name.replaceAll(character, escape), property);
}

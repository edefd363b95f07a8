import type { JsonObject } from '../../json/json.ts';
import { invalidValues } from '../schema/causes.ts';
import { records, text, texts, stringMap } from '../fields.ts';
import type { Cause } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from '../../json/name-problems.ts';

export function labelProblems(labels: Readonly<Record<string, string>>, field: string): readonly Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...invalidValues(field, key, labelKeyProblems(key)),
    ...invalidValues(field, value, labelValueProblems(value)),
  ]);
}

/** A LabelSelector as text: `a=b,c in (d,e),!f`; `<none>` if it is empty. */
export function shownSelector(selector: JsonObject): string {
  const labels = Object.entries(stringMap(selector, 'matchLabels')).map(([key, value]) => `${key}=${value}`);
  const expressions = records(selector, 'matchExpressions').map(shownExpression);
  return [...labels, ...expressions].sort().join(',') || '<none>';
}

function shownExpression(expression: JsonObject): string {
  const key = text(expression, 'key');
  const values = `(${texts(expression, 'values').toSorted().join(',')})`;
  switch (text(expression, 'operator')) {
    case 'In':
      return `${key} in ${values}`;
    case 'NotIn':
      return `${key} notin ${values}`;
    case 'DoesNotExist':
      return `!${key}`;
    default:
      return key;
  }
}

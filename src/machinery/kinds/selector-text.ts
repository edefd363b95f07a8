import type { JsonObject } from '../../json/json.ts';
import { records, text, texts, stringMap } from '../fields.ts';

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

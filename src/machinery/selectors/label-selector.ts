import type { JsonObject } from '../../json/json.ts';
import { forbiddenValue, invalidValue, invalidValues, requiredValue, when } from '../schema/causes.ts';
import { records, text, texts, stringMap } from '../fields.ts';
import type { Cause } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from '../name-problems.ts';

/** The problems of labels (ValidateLabels of k8s.io/apimachinery). */
export function labelProblems(labels: Readonly<Record<string, string>>, field: string): readonly Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...invalidValues(field, key, labelKeyProblems(key)),
    ...invalidValues(field, value, labelValueProblems(value)),
  ]);
}

/** The problems of a LabelSelector (ValidateLabelSelector of k8s.io/apimachinery). */
export function selectorProblems(selector: JsonObject, field: string): readonly Cause[] {
  return [
    ...labelProblems(stringMap(selector, 'matchLabels'), `${field}.matchLabels`),
    ...records(selector, 'matchExpressions').flatMap((expression, index) =>
      expressionProblems(expression, `${field}.matchExpressions[${index}]`),
    ),
  ];
}

function expressionProblems(expression: JsonObject, field: string): readonly Cause[] {
  const key = text(expression, 'key');
  const values = texts(expression, 'values');
  return [
    ...operatorProblems(text(expression, 'operator'), values, field),
    ...invalidValues(`${field}.key`, key, labelKeyProblems(key)),
    ...values.flatMap((value, index) =>
      invalidValues(`${field}.values[${index}]`, value, labelValueProblems(value)),
    ),
  ];
}

function operatorProblems(operator: string, values: readonly string[], field: string): readonly Cause[] {
  const at = `${field}.values`;
  switch (operator) {
    case 'In':
    case 'NotIn': {
      const why = "must be specified when `operator` is 'In' or 'NotIn'";
      return when(values.length === 0, requiredValue(at, why));
    }
    case 'Exists':
    case 'DoesNotExist': {
      const why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
      return when(values.length > 0, forbiddenValue(at, why));
    }
    default:
      return [invalidValue(`${field}.operator`, operator, 'not a valid selector operator')];
  }
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

import type { JsonObject } from '../../json/json.ts';
import { forbiddenValue, invalidValue, requiredValue } from '../schema/causes.ts';
import { records, text, texts, stringMap } from '../fields.ts';
import type { Cause } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from '../selectors/label-syntax.ts';

/** The problems of labels (ValidateLabels of k8s.io/apimachinery). */
export function labelProblems(labels: Readonly<Record<string, string>>, field: string): readonly Cause[] {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...labelKeyProblems(key).map((problem) => invalidValue(field, key, problem)),
    ...labelValueProblems(value).map((problem) => invalidValue(field, value, problem)),
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
  const operator = text(expression, 'operator');
  const values = texts(expression, 'values');
  return [
    ...operatorProblems(operator, values, field),
    ...labelKeyProblems(key).map((problem) => invalidValue(`${field}.key`, key, problem)),
    ...values.flatMap((value, index) =>
      labelValueProblems(value).map((problem) => invalidValue(`${field}.values[${index}]`, value, problem)),
    ),
  ];
}

function operatorProblems(operator: string, values: readonly string[], field: string): readonly Cause[] {
  switch (operator) {
    case 'In':
    case 'NotIn':
      return values.length > 0
        ? []
        : [requiredValue(`${field}.values`, "must be specified when `operator` is 'In' or 'NotIn'")];
    case 'Exists':
    case 'DoesNotExist':
      return values.length === 0
        ? []
        : [
            forbiddenValue(
              `${field}.values`,
              "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
          ];
    default:
      return [invalidValue(`${field}.operator`, operator, 'not a valid selector operator')];
  }
}

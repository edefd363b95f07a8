import { isJsonArray, isJsonObject, ownValue } from './json.ts';
import { isLabelValue, isQualifiedName } from './kube-object.ts';
import { quote } from './printable.ts';

/** The label with the name of a Namespace, which the API server sets on every Namespace. */
export const NAMESPACE_NAME_LABEL = 'kubernetes.io/metadata.name';

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

type Labels = Readonly<Record<string, string>>;

interface LabelExpression {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values?: readonly string[];
}

/** A normalised LabelSelector: sorted and without empty parts, so that equal selectors have equal text. */
export interface NormalSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelExpression[];
}

export interface SelectorProblem {
  readonly where: string;
  readonly message: string;
}

export function matchesSelector(selector: NormalSelector, labels: Labels): boolean {
  const has = (key: string) => Object.hasOwn(labels, key);
  return (
    Object.entries(selector.matchLabels ?? {}).every(([key, value]) => has(key) && labels[key] === value) &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      switch (operator) {
        case 'In':
          return has(key) && values.includes(labels[key] ?? '');
        case 'NotIn':
          return !has(key) || !values.includes(labels[key] ?? '');
        case 'Exists':
          return has(key);
        case 'DoesNotExist':
          return !has(key);
      }
    })
  );
}

/** A selector that the API server rejects would block the webhook configuration of all policies. */
export function normaliseSelector(
  given: unknown,
  where: string,
): { readonly selector: NormalSelector; readonly problems: readonly SelectorProblem[] } {
  const problems: SelectorProblem[] = [];
  const report = (field: string, message: string) => {
    problems.push({ where: `${where}${field}`, message });
  };
  if (given === undefined) return { selector: {}, problems };
  if (!isJsonObject(given)) {
    report('', 'write an object with matchLabels or matchExpressions');
    return { selector: {}, problems };
  }
  for (const key of Object.keys(given)) {
    if (key !== 'matchLabels' && key !== 'matchExpressions')
      report('', `unknown field ${quote(key)}: write matchLabels or matchExpressions`);
  }
  const labels = labelsOf(ownValue(given, 'matchLabels') ?? {}, report);
  const expressions = expressionsOf(ownValue(given, 'matchExpressions') ?? [], report);
  return {
    selector: {
      ...(labels.length > 0 ? { matchLabels: Object.fromEntries(labels) } : {}),
      ...(expressions.length > 0 ? { matchExpressions: expressions } : {}),
    },
    problems,
  };
}

type Report = (field: string, message: string) => void;

function labelsOf(given: unknown, report: Report): readonly (readonly [string, string])[] {
  if (!isJsonObject(given)) {
    report('.matchLabels', 'write an object of label keys and values');
    return [];
  }
  const labels = Object.entries(given).flatMap(([key, value]) => {
    if (isQualifiedName(key) && typeof value === 'string' && isLabelValue(value))
      return [[key, value] as const];
    report('.matchLabels', `${quote(key)}: ${quote(value)} is not a label`);
    return [];
  });
  return labels.sort(([a], [b]) => (a < b ? -1 : 1));
}

function expressionsOf(given: unknown, report: Report): readonly LabelExpression[] {
  if (!isJsonArray(given)) {
    report('.matchExpressions', 'write a list of expressions');
    return [];
  }
  const expressions = given.flatMap((item, index) => {
    const expression = expressionOf(item);
    if (typeof expression !== 'string') return [expression];
    report(`.matchExpressions[${index}]`, expression);
    return [];
  });
  const spelling = (expression: LabelExpression) => JSON.stringify(expression);
  return expressions.sort((a, b) => (spelling(a) < spelling(b) ? -1 : 1));
}

function expressionOf(item: unknown): LabelExpression | string {
  if (!isJsonObject(item)) return 'write an object with key, operator and values';
  const key = ownValue(item, 'key');
  const operator = ownValue(item, 'operator');
  const values = ownValue(item, 'values') ?? [];
  if (typeof key !== 'string' || !isQualifiedName(key)) return `key ${quote(key)} is not the key of a label`;
  if (!isJsonArray(values) || !values.every((value) => typeof value === 'string' && isLabelValue(value)))
    return 'values: write a list of label values';
  switch (operator) {
    case 'In':
    case 'NotIn':
      return values.length === 0
        ? `operator ${operator} needs values`
        : { key, operator, values: [...new Set(values.map(String))].sort() };
    case 'Exists':
    case 'DoesNotExist':
      return values.length === 0
        ? { key, operator }
        : `operator ${operator} does not allow values: remove them`;
    default:
      return `operator ${quote(operator)}: write In, NotIn, Exists or DoesNotExist`;
  }
}

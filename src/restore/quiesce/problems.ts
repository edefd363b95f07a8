import type { QuiesceRule } from '../../api/quiesce.ts';
import { tryParsePath } from '../../json/field-path.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';

/** For workloads: zero replicas. */
export const DEFAULT_PATH = 'spec.replicas';

/** The problems of rules that the schema cannot express; empty if the rules can be used. */
export function quiesceProblems(rules: readonly QuiesceRule[] = []): readonly string[] {
  return rules.flatMap(({ path = DEFAULT_PATH, value = 0, matchLabels }, index) => {
    const at = `spec.quiesce[${index}]`;
    const labels = Object.entries(matchLabels);
    const odd = labels.find(([key, text]) => !isQualifiedName(key) || !isLabelValue(text));
    const [first, ...rest] = tryParsePath(path)?.concrete?.keys ?? [];
    const isField = first === 'spec' && rest.length > 0 && rest.every((key) => typeof key === 'string');
    return [
      ...(labels.length === 0 ? [`${at}.matchLabels: name at least one label`] : []),
      ...(odd === undefined ? [] : [`${at}.matchLabels: "${odd.join('=')}" is not a label`]),
      ...(isField ? [] : [`${at}.path: "${path}" is not a field of spec such as spec.paused`]),
      ...(['boolean', 'number', 'string'].includes(typeof value)
        ? []
        : [`${at}.value: write true, false, a number or a text`]),
    ];
  });
}

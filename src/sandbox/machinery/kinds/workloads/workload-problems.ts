import { isEqual } from '../../../../json/json.ts';
import { matchesSelector, normaliseSelector } from '../../../../json/label-selector.ts';
import type { ApiObject } from '../../api-object.ts';
import { record, number, section, spec, status, stringMap } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue } from '../../schema/causes.ts';
import { selectorProblems } from '../label-problems.ts';
import { containerProblems } from './pod.ts';

/** The problems of a Deployment or ReplicaSet (pkg/apis/apps/validation). */
export function workloadProblems(workload: ApiObject, called: 'deployment' | 'replicaset'): readonly Cause[] {
  const template = section(workload, 'spec', 'template');
  return [
    ...notNegative(workload, 'replicas'),
    ...notNegative(workload, 'minReadySeconds'),
    ...selectionProblems(workload, called),
    ...containerProblems(section(template, 'spec'), 'spec.template.spec'),
    ...countProblems(workload),
  ];
}

/** Status counters that may not exceed `replicas`. */
const PARTS = ['fullyLabeledReplicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas'];

function countProblems(workload: ApiObject): readonly Cause[] {
  const count = (name: string) => number(status(workload), name) ?? 0;
  const problem = (name: string, why: string) => invalidValue(`status.${name}`, count(name), why);
  return [
    ...['replicas', ...PARTS]
      .filter((name) => count(name) < 0)
      .map((name) => problem(name, 'must be greater than or equal to 0')),
    ...PARTS.filter((name) => count(name) > count('replicas')).map((name) =>
      problem(name, 'cannot be greater than status.replicas'),
    ),
    ...(count('availableReplicas') > count('readyReplicas')
      ? [problem('availableReplicas', 'cannot be greater than readyReplicas')]
      : []),
  ];
}

function notNegative(workload: ApiObject, name: string): readonly Cause[] {
  const count = number(spec(workload), name) ?? 0;
  return count >= 0 ? [] : [invalidValue(`spec.${name}`, count, 'must be greater than or equal to 0')];
}

/** The selector must not be empty and must match the labels of the pod template. */
function selectionProblems(workload: ApiObject, called: string): readonly Cause[] {
  const selector = record(spec(workload), 'selector');
  const labels = stringMap(section(workload, 'spec', 'template', 'metadata'), 'labels');
  const mismatch = invalidValue(
    'spec.template.metadata.labels',
    Object.keys(labels).length === 0 ? null : labels,
    '`selector` does not match template `labels`',
  );
  if (selector === undefined) return [requiredValue('spec.selector'), mismatch];
  const problems = selectorProblems(selector, 'spec.selector');
  if (problems.length > 0) return problems;
  const { selector: normal } = normaliseSelector(selector, '');
  if (Object.keys(normal).length === 0) {
    return [invalidValue('spec.selector', selector, `empty selector is invalid for ${called}`)];
  }
  return matchesSelector(normal, labels) ? [] : [mismatch];
}

/** The selector is immutable, because a new selector would orphan the existing pods. */
export function workloadUpdateProblems(workload: ApiObject, old: ApiObject): readonly Cause[] {
  const selector = section(workload, 'spec', 'selector');
  if (isEqual(selector, section(old, 'spec', 'selector'))) return [];
  return [invalidValue('spec.selector', selector, 'field is immutable')];
}

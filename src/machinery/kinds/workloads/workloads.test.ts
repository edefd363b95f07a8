import { expect, test } from 'vitest';
import type { JsonObject } from '../../../json/json.ts';
import { created, updateProblems } from '../../../../test/support/sandbox/built-in-objects.ts';

test.each([
  ['i', 'Always'],
  ['i:latest', 'Always'],
  ['host:5000/i', 'Always'],
  ['i:1', 'IfNotPresent'],
  ['i@sha256:0', 'IfNotPresent'],
])('a Pod with the image %s pulls %s', (image, imagePullPolicy) => {
  const pod = created('v1 Pod', { spec: { containers: [{ name: 'c', image }] } });
  expect(pod).toMatchObject({ spec: { containers: [{ imagePullPolicy }] }, status: { phase: 'Pending' } });
});

const POD: JsonObject = {
  containers: [{ name: 'c', image: 'i' }],
  tolerations: [{ key: 'a', operator: 'Exists', tolerationSeconds: 1 }],
  activeDeadlineSeconds: 60,
};
const problemsOf = (change: JsonObject, before: JsonObject = {}) => {
  const old = { ...POD, ...before };
  return updateProblems('v1 Pod', { spec: { ...old, ...change } }, created('v1 Pod', { spec: old }));
};

test.each<[string, JsonObject, JsonObject?]>([
  ['an image', { containers: [{ name: 'c', image: 'j' }] }],
  ['another toleration', { tolerations: [{ key: 'a', operator: 'Exists' }, { key: 'b' }] }],
  ['a shorter deadline', { activeDeadlineSeconds: 30 }],
  [
    'a grace period of 1 instead of -1',
    { terminationGracePeriodSeconds: 1 },
    { terminationGracePeriodSeconds: -1 },
  ],
  ['a node selector while it is gated', { nodeSelector: { a: 'x' } }, { schedulingGates: [{ name: 'g' }] }],
  ['no gate', { schedulingGates: [] }, { schedulingGates: [{ name: 'g' }] }],
])('a Pod can get %s', (_what, ...change) => {
  expect(problemsOf(...change)).toEqual([]);
});

test.each<[JsonObject, string]>([
  [
    { hostNetwork: true },
    'spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,',
  ],
  [{ nodeSelector: { a: 'x' } }, 'spec: Forbidden: pod updates'],
  [{ terminationGracePeriodSeconds: 1 }, 'spec: Forbidden: pod updates'],
  [{ containers: [] }, 'spec.containers: Forbidden: pod updates may not add or remove containers'],
  [{ initContainers: [{ name: 'd' }] }, 'spec.initContainers: Forbidden: pod updates may not add or remove'],
  [{ tolerations: [] }, 'spec.tolerations: Forbidden: existing toleration can not be modified'],
  [
    { activeDeadlineSeconds: 90 },
    'spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal',
  ],
  [{ schedulingGates: [{ name: 'g' }] }, 'spec.schedulingGates[0].name: Forbidden: only deletion is allowed'],
])('an update of a Pod with %j is refused', (change, problem) => {
  expect(problemsOf(change)).toEqual([expect.stringContaining(problem)]);
});

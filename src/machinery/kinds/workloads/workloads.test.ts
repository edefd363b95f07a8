import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../json/json.ts';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  decoded,
  updateProblems,
} from '../../../../test/support/sandbox/built-in-objects.ts';

const DEPLOYMENT = 'apps/v1 Deployment';
const BUDGET = 'policy/v1 PodDisruptionBudget';

describe('a Deployment', () => {
  const template = {
    metadata: { labels: { a: 'b' } },
    spec: { containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 1 }] }] },
  };
  const healthy: JsonObject = { selector: { matchLabels: { a: 'b' } }, template };

  test('gets the same defaults as in the API server', () => {
    expect(toJson(created(DEPLOYMENT, { spec: healthy }))).toMatchObject({
      spec: {
        replicas: 1,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
        revisionHistoryLimit: 10,
        progressDeadlineSeconds: 600,
        template: {
          spec: {
            containers: [
              { imagePullPolicy: 'Always', ports: [{ containerPort: 1, protocol: 'TCP' }], resources: {} },
            ],
            restartPolicy: 'Always',
            schedulerName: 'default-scheduler',
          },
        },
      },
      status: {},
    });
  });

  test.each([
    ['Recreate', { strategy: { type: 'Recreate' } }, { type: 'Recreate' }],
    [
      'a surge of one',
      { strategy: { rollingUpdate: { maxSurge: 1 } } },
      { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: 1 } },
    ],
  ])('may roll out by %s', (_how, change, strategy) => {
    expect(toJson(created(DEPLOYMENT, { spec: { ...healthy, ...change } })).spec).toMatchObject({
      strategy,
    });
  });

  const mismatch = '`selector` does not match template `labels`';

  test.each([
    ['is healthy', {}, []],
    [
      'selects other pods',
      { selector: { matchLabels: { a: 'c' } } },
      [`spec.template.metadata.labels: Invalid value: {"a":"b"}: ${mismatch}`],
    ],
    [
      'selects everything',
      { selector: {} },
      ['spec.selector: Invalid value: {}: empty selector is invalid for deployment'],
    ],
    [
      'has negative replicas',
      { replicas: -1 },
      ['spec.replicas: Invalid value: -1: must be greater than or equal to 0'],
    ],
    [
      'is empty',
      { selector: null, template: null },
      [
        'spec.selector: Required value',
        `spec.template.metadata.labels: Invalid value: null: ${mismatch}`,
        'spec.template.spec.containers: Required value',
      ],
    ],
  ])('that %s', (_what, change, expected) => {
    expect(createProblems(DEPLOYMENT, { spec: { ...healthy, ...change } })).toEqual(expected);
  });

  test('has an immutable selector', () => {
    const after = { spec: { ...healthy, selector: { matchLabels: { z: 'b' } } } };
    expect(updateProblems(DEPLOYMENT, { spec: healthy }, after)).toEqual([
      'spec.selector: Invalid value: {"matchLabels":{"z":"b"}}: field is immutable',
    ]);
  });
});

describe('a Pod', () => {
  test.each([
    ['i', 'Always'],
    ['i:latest', 'Always'],
    ['host:5000/i', 'Always'],
    ['i:1', 'IfNotPresent'],
    ['i@sha256:0', 'IfNotPresent'],
  ])('with the image %s pulls %s', (image, imagePullPolicy) => {
    const pod = created('v1 Pod', { spec: { containers: [{ name: 'c', image }] } });
    expect(pod).toMatchObject({ spec: { containers: [{ imagePullPolicy }] }, status: { phase: 'Pending' } });
  });

  test('needs containers with unique names and an image', () => {
    const containers = [{}, { name: 'a', image: ' x ' }, { name: 'a', image: 'x' }];
    expect(createProblems('v1 Pod', { spec: { containers } })).toEqual([
      'spec.containers[0].name: Required value',
      'spec.containers[0].image: Required value',
      'spec.containers[1].image: Invalid value: " x ": must not have leading or trailing whitespace',
      'spec.containers[2].name: Duplicate value: "a"',
    ]);
  });

  test('shows why its containers wait', () => {
    const containerStatuses = [
      { ready: true, restartCount: 2, state: { waiting: { reason: 'CrashLoopBackOff' } } },
    ];
    const pod = decoded('v1 Pod', {
      spec: { containers: [{ name: 'a' }, { name: 'b' }] },
      status: { phase: 'Running', containerStatuses },
    });
    expect(cells('v1 Pod', pod)).toMatchObject({
      Ready: '1/2',
      Status: 'CrashLoopBackOff',
      Restarts: '2',
      IP: '<none>',
    });
  });
});

test('a PodDisruptionBudget shows its limits', () => {
  expect(cells(BUDGET, created(BUDGET, { spec: { minAvailable: 1 } }))).toEqual({
    'Min Available': '1',
    'Max Unavailable': 'N/A',
    'Allowed Disruptions': 0,
  });
});

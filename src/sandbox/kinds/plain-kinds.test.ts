import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../admission/json.ts';
import { toJson, withMeta } from '../api-object.ts';
import { apiVersionOf } from '../resource-type.ts';
import { reviewKinds } from './access-reviews.ts';
import { eventAs } from './event-conversion.ts';
import {
  cells,
  created,
  createProblems,
  decoded,
  typeOf,
  TYPES,
  updated,
  updateProblems,
} from './written.test-support.ts';

const NAMESPACE = 'v1 Namespace';
const EVENT = 'v1 Event';
const NEW_EVENT = 'events.k8s.io/v1 Event';
const DEPLOYMENT = 'apps/v1 Deployment';
const API_SERVICE = 'apiregistration.k8s.io/v1 APIService';
const BUDGET = 'policy/v1 PodDisruptionBudget';

test('no two kinds share a name', () => {
  const names = TYPES.map((type) => `${apiVersionOf(type)} ${type.kind}`);
  expect(new Set(names).size).toBe(names.length);
});

test('a review without an answer is not served', () => {
  expect(reviewKinds({ TokenReview: (review) => review }).map(({ resource }) => resource)).toEqual([
    'tokenreviews',
  ]);
});

describe('a Namespace', () => {
  test('is active, carries its name and is held by its finalizer', () => {
    expect(toJson(created(NAMESPACE, { status: { phase: 'Terminating' } }, { name: 'a' }))).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  });

  test('keeps the label of its name and its finalizers, whatever an update says', () => {
    const old = created(NAMESPACE, {}, { name: 'a' });
    const bare = withMeta(decoded(NAMESPACE, { spec: { finalizers: [] } }, { name: 'a' }), {
      labels: { b: 'c' },
    });
    expect(typeOf(NAMESPACE).strategy.prepareForUpdate(bare, old)).toMatchObject({
      metadata: { labels: { b: 'c', 'kubernetes.io/metadata.name': 'a' } },
      spec: { finalizers: ['kubernetes'] },
    });
  });

  test('has finalizers that have an owner', () => {
    expect(createProblems(NAMESPACE, { spec: { finalizers: ['foo', 'a/b'] } }, { name: 'a' })).toEqual([
      'spec.finalizers: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified',
    ]);
  });

  test.each([
    ['a.b', 'a lowercase RFC 1123 label must consist of'],
    ['a'.repeat(64), 'must be no more than 63 characters'],
  ])('is not called %s', (name, problem) => {
    expect(typeOf(NAMESPACE).strategy.nameProblem?.(name)).toContain(problem);
  });
});

describe('an Event', () => {
  const about = { kind: 'Pod', namespace: 'default', name: 'p', fieldPath: 'spec' };
  const written = {
    involvedObject: about,
    reason: 'Done',
    message: 'it is done\n',
    type: 'Normal',
    count: 3,
    firstTimestamp: '1970-01-01T00:00:00Z',
    lastTimestamp: '1970-01-01T00:01:00Z',
    source: { component: 'me', host: 'here' },
    reportingComponent: 'me',
    reportingInstance: 'here',
  };
  const now = new Date(120_000);

  test('is shown with its name last', () => {
    expect(Object.entries(cells(EVENT, created(EVENT, written), now))).toEqual([
      ['Last Seen', '60s (x3 over 2m)'],
      ['Type', 'Normal'],
      ['Reason', 'Done'],
      ['Object', 'pod/p'],
      ['Subobject', 'spec'],
      ['Source', 'me, here'],
      ['Message', 'it is done'],
      ['First Seen', '2m'],
      ['Count', '3'],
      ['Name', 'x'],
    ]);
  });

  test('is one thing in two spellings', () => {
    const core = created(EVENT, written);
    const other = eventAs(core, 'events.k8s.io/v1');
    expect(toJson(other)).toMatchObject({
      apiVersion: 'events.k8s.io/v1',
      regarding: about,
      note: 'it is done\n',
      deprecatedCount: 3,
      deprecatedSource: { component: 'me', host: 'here' },
      reportingController: 'me',
      reason: 'Done',
    });
    expect(other).not.toHaveProperty('involvedObject');
    expect(eventAs(other, 'v1')).toEqual(core);
    expect(eventAs(other, 'events.k8s.io/v1')).toBe(other);
    expect(cells(NEW_EVENT, other, now)).toEqual(cells(EVENT, core, now));
  });

  test.each([
    ['its own namespace', 'a', 'a', []],
    ['the default one for what has none', '', 'default', []],
    ['another', 'b', 'a', ['involvedObject.namespace: Invalid value: "b": does not match event.namespace']],
    [
      'any other for what has none',
      '',
      'a',
      ['involvedObject.namespace: Invalid value: "": does not match event.namespace'],
    ],
  ])('may stand in %s', (_which, namespace, own, expected) => {
    expect(createProblems(EVENT, { involvedObject: { namespace } }, { name: 'x', namespace: own })).toEqual(
      expected,
    );
  });

  test('with a time of its own says who reports it', () => {
    expect(createProblems(EVENT, { eventTime: '2020-01-01T00:00:00.000000Z' })).toEqual([
      'reportingComponent: Required value',
      'reportingInstance: Required value',
      'action: Required value',
      'reason: Required value',
    ]);
  });

  test('in the new spelling says when, and nothing in the old one', () => {
    const healthy = {
      eventTime: '2020-01-01T00:00:00.000000Z',
      reportingController: 'a/b',
      reportingInstance: 'c',
      action: 'D',
      reason: 'E',
      type: 'Normal',
    };
    expect(createProblems(NEW_EVENT, healthy)).toEqual([]);
    expect(
      createProblems(NEW_EVENT, { ...healthy, eventTime: null, type: 'Foo', deprecatedCount: 1, series: {} }),
    ).toEqual([
      'eventTime: Required value',
      'type: Unsupported value: "Foo": supported values: "Normal", "Warning"',
      'deprecatedCount: Invalid value: 1: needs to be unset',
      'series.count: Invalid value: 0: should be at least 2',
    ]);
  });

  test.each([
    [EVENT, 'involvedObject.name', 'p'],
    [EVENT, 'source', 'me'],
    [EVENT, 'reason', 'Done'],
  ])('%s can be selected by %s', (kind, field, value) => {
    expect(typeOf(kind).selectableFields[field]?.(created(kind, written))).toBe(value);
  });
});

test('a Lease lasts longer than no time', () => {
  expect(
    createProblems('coordination.k8s.io/v1 Lease', {
      spec: { leaseDurationSeconds: 0, leaseTransitions: -1 },
    }),
  ).toEqual([
    'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
    'spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0',
  ]);
});

describe('a Deployment', () => {
  const template = {
    metadata: { labels: { a: 'b' } },
    spec: { containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 1 }] }] },
  };
  const healthy: JsonObject = { selector: { matchLabels: { a: 'b' } }, template };

  test('is completed as the API server completes it', () => {
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

  test('keeps what is not known of its pods', () => {
    const spec = { ...healthy, template: { ...template, spec: { ...template.spec, invented: 1 } } };
    expect(created(DEPLOYMENT, { spec })).toMatchObject({ spec: { template: { spec: { invented: 1 } } } });
  });

  test.each([
    ['Recreate', { strategy: { type: 'Recreate' } }, { type: 'Recreate' }],
    [
      'a surge of one',
      { strategy: { rollingUpdate: { maxSurge: 1 } } },
      { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: 1 } },
    ],
  ])('may roll out by %s', (_how, change, strategy) => {
    expect(toJson(created(DEPLOYMENT, { spec: { ...healthy, ...change } }))['spec']).toMatchObject({
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
      'wants less than nothing',
      { replicas: -1 },
      ['spec.replicas: Invalid value: -1: must be greater than or equal to 0'],
    ],
    [
      'says nothing',
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

  test('keeps its selector', () => {
    const after = { spec: { ...healthy, selector: { matchLabels: { z: 'b' } } } };
    expect(updateProblems(DEPLOYMENT, { spec: healthy }, after)).toEqual([
      'spec.selector: Invalid value: {"matchLabels":{"z":"b"}}: field is immutable',
    ]);
  });

  test('shows how far it is', () => {
    expect(cells(DEPLOYMENT, created(DEPLOYMENT, { spec: healthy }))).toEqual({
      Ready: '0/1',
      'Up-to-date': '0',
      Available: '0',
      Containers: 'c',
      Images: 'i',
      Selector: 'a=b',
    });
  });
});

describe('a Pod', () => {
  test.each([
    ['i', 'Always'],
    ['i:latest', 'Always'],
    ['host:5000/i', 'Always'],
    ['i:1', 'IfNotPresent'],
    ['i@sha256:0', 'IfNotPresent'],
  ])('of the image %s pulls %s', (image, imagePullPolicy) => {
    const pod = created('v1 Pod', { spec: { containers: [{ name: 'c', image }] } });
    expect(pod).toMatchObject({ spec: { containers: [{ imagePullPolicy }] }, status: { phase: 'Pending' } });
  });

  test('has containers, each with a name of its own and an image', () => {
    const containers = [{}, { name: 'a', image: ' x ' }, { name: 'a', image: 'x' }];
    expect(createProblems('v1 Pod', { spec: { containers } })).toEqual([
      'spec.containers[0].name: Required value',
      'spec.containers[0].image: Required value',
      'spec.containers[1].image: Invalid value: " x ": must not have leading or trailing whitespace',
      'spec.containers[2].name: Duplicate value: "a"',
    ]);
  });

  test('shows what its containers are waiting for', () => {
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

describe('an APIService', () => {
  const metadata = { name: 'v1.foo.example.com' };
  const spec = { group: 'foo.example.com', version: 'v1', groupPriorityMinimum: 10, versionPriority: 10 };
  const service = { name: 'a', namespace: 'b' };

  test('is available when the API server itself serves it', () => {
    const local = created(API_SERVICE, { spec }, metadata);
    expect(cells(API_SERVICE, local)).toEqual({ Service: 'Local', Available: 'True' });
    const remote = created(API_SERVICE, { spec: { ...spec, service } }, metadata);
    expect(cells(API_SERVICE, remote)).toEqual({ Service: 'b/a', Available: 'False (ServiceNotFound)' });
  });

  test.each([
    ['is healthy', {}, []],
    [
      'has another name',
      { version: 'v2' },
      [
        'metadata.name: Invalid value: "v1.foo.example.com": must be `spec.version+"."+spec.group`: "v2.foo.example.com"',
      ],
    ],
    [
      'has no priority',
      { groupPriorityMinimum: 0, versionPriority: 10_000 },
      [
        'spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000',
        'spec.versionPriority: Invalid value: 10000: must be positive and less than 1000',
      ],
    ],
    [
      'both checks and does not check a certificate',
      { service, insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      ['spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present'],
    ],
    [
      'checks the certificate of nobody',
      { insecureSkipTLSVerify: true, caBundle: 'YWJj' },
      [
        'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        'spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify',
      ],
    ],
    [
      'is of no service',
      { service: {} },
      ['spec.service.namespace: Required value', 'spec.service.name: Required value'],
    ],
  ])('that %s', (_what, change, expected) => {
    expect(createProblems(API_SERVICE, { spec: { ...spec, ...change } }, metadata)).toEqual(expected);
  });
});

test.each([
  ['is healthy', { minAvailable: '50%' }, []],
  [
    'is of a share that is none',
    { minAvailable: 'x' },
    [
      "spec.minAvailable: Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
    ],
  ],
  [
    'is of more than all',
    { minAvailable: '101%' },
    ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
  ],
  [
    'is of less than none',
    { maxUnavailable: -1 },
    ['spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0'],
  ],
])('a PodDisruptionBudget that %s', (_what, spec, expected) => {
  expect(createProblems(BUDGET, { spec })).toEqual(expected);
});

test('a PodDisruptionBudget has one measure', () => {
  expect(createProblems(BUDGET, { spec: { minAvailable: 1, maxUnavailable: 1 } })[0]).toContain(
    'minAvailable and maxUnavailable cannot be both set',
  );
  expect(cells(BUDGET, created(BUDGET, { spec: { minAvailable: 1 } }))).toEqual({
    'Min Available': '1',
    'Max Unavailable': 'N/A',
    'Allowed Disruptions': 0,
  });
});

test('a NetworkPolicy is about what comes in, and about what goes out when it says so', () => {
  const kind = 'networking.k8s.io/v1 NetworkPolicy';
  expect(created(kind, { spec: {} })).toMatchObject({ spec: { podSelector: {}, policyTypes: ['Ingress'] } });
  const both = created(kind, { spec: { egress: [{ ports: [{ port: 1 }] }] } });
  expect(both).toMatchObject({
    spec: { policyTypes: ['Ingress', 'Egress'], egress: [{ ports: [{ protocol: 'TCP' }] }] },
  });
});

test('an EndpointSlice keeps the type of its addresses', () => {
  const kind = 'discovery.k8s.io/v1 EndpointSlice';
  expect(createProblems(kind, {})).toEqual(['addressType: Required value']);
  expect(updateProblems(kind, { addressType: 'IPv4' }, { addressType: 'IPv6' })).toEqual([
    'addressType: Invalid value: "IPv6": field is immutable',
  ]);
});

test('Endpoints show three addresses and count the rest', () => {
  const subsets = [{ addresses: ['1', '2', '3', '4'].map((ip) => ({ ip })), ports: [{ port: 80 }] }];
  expect(cells('v1 Endpoints', created('v1 Endpoints', { subsets }))).toEqual({
    Endpoints: '1:80,2:80,3:80 + 1 more...',
  });
});

test('completing an object twice is completing it once', () => {
  for (const type of TYPES) {
    const kind = `${apiVersionOf(type)} ${type.kind}`;
    const once = decoded(kind, {});
    expect(type.strategy.completeDefaults?.(once) ?? once, kind).toEqual(once);
  }
});

test('a Service that is written as it was first written stays as it is', () => {
  const fields = { spec: { ports: [{ port: 80 }] } };
  const old = created('v1 Service', fields);
  expect(updated('v1 Service', fields, old)).toEqual(withoutStatus(old));
});

function withoutStatus(object: object): object {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
}

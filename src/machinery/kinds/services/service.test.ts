import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  updated,
  updateProblems,
} from '../../../../test/support/sandbox/built-in-objects.ts';

const SERVICE = 'v1 Service';
const create = (spec: object) => toJson(created(SERVICE, { spec: { ...spec } }));
const problems = (spec: object) => createProblems(SERVICE, { spec: { ...spec } });
const port = { port: 80 };

test('a Service gets the same defaults as in the API server', () => {
  expect(create({ ports: [port], selector: { a: 'b' } })).toMatchObject({
    spec: {
      ports: [{ protocol: 'TCP', port: 80, targetPort: 80 }],
      selector: { a: 'b' },
      clusterIP: '10.0.0.7',
      clusterIPs: ['10.0.0.7'],
      type: 'ClusterIP',
      sessionAffinity: 'None',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  });
});

test('a headless Service has no address, and both families if it has no selector', () => {
  expect(create({ clusterIP: 'None' }).spec).toMatchObject({
    clusterIP: 'None',
    clusterIPs: ['None'],
    ipFamilies: ['IPv4', 'IPv6'],
    ipFamilyPolicy: 'RequireDualStack',
  });
  expect(create({ clusterIP: 'None', selector: { a: 'b' } }).spec).toMatchObject({
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
  });
});

test('an ExternalName Service has no address', () => {
  expect(create({ type: 'ExternalName', externalName: 'a.b' }).spec).toEqual({
    type: 'ExternalName',
    sessionAffinity: 'None',
    externalName: 'a.b',
  });
});

test('client IP affinity lasts three hours by default, and affinity settings without affinity are dropped', () => {
  expect(create({ ports: [port], sessionAffinity: 'ClientIP' }).spec).toMatchObject({
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
  });
  expect(
    create({ ports: [port], sessionAffinityConfig: { clientIP: { timeoutSeconds: 1 } } }).spec,
  ).not.toHaveProperty('sessionAffinityConfig');
});

test.each(['NodePort', 'LoadBalancer'])('a %s Service has a node port', (type) => {
  expect(create({ ports: [port], type }).spec).toMatchObject({
    ports: [{ nodePort: 30_007 }],
    externalTrafficPolicy: 'Cluster',
  });
});

test.each([
  ['has no ports', {}, ['spec.ports: Required value']],
  ['is an ExternalName without a name', { type: 'ExternalName' }, ['spec.externalName: Required value']],
  [
    'has two ports without names',
    { ports: [port, { port: 81 }] },
    ['spec.ports[0].name: Required value', 'spec.ports[1].name: Required value'],
  ],
  [
    'has a duplicate port',
    {
      ports: [
        { port: 80, name: 'a' },
        { port: 80, name: 'b' },
      ],
    },
    [
      'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
    ],
  ],
  [
    'has a target that is not a port name',
    { ports: [{ port: 80, targetPort: 'A_b' }] },
    [
      'spec.ports[0].targetPort: Invalid value: "A_b": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
    ],
  ],
])('a Service is rejected if it %s', (_when, spec, expected) => {
  expect(problems(spec)).toEqual(expected);
});

test('an update that omits the address keeps it', () => {
  const old = created(SERVICE, { spec: { ports: [port], clusterIP: '10.0.0.9' } });
  expect(updated(SERVICE, { spec: { ports: [{ port: 81 }] } }, old)).toMatchObject({
    spec: { clusterIP: '10.0.0.9', clusterIPs: ['10.0.0.9'], ipFamilies: ['IPv4'], ports: [{ port: 81 }] },
  });
});

test('a Service that becomes an ExternalName loses its address', () => {
  const old = created(SERVICE, { spec: { ports: [port] } });
  const { spec } = toJson(old);
  const next = { ...(spec as object), type: 'ExternalName', externalName: 'a.b' };
  const changed = toJson(updated(SERVICE, { spec: next }, old)).spec;
  expect(changed).not.toHaveProperty('clusterIP');
  expect(changed).not.toHaveProperty('clusterIPs');
});

test.each([
  ['10.0.0.99', 'spec.clusterIPs[0]: Invalid value: ["10.0.0.99"]: may not change once set'],
  ['None', 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
])('the address may not change to %s', (clusterIP, problem) => {
  const before = { spec: { ports: [port] } };
  expect(updateProblems(SERVICE, before, { spec: { ports: [port], clusterIP } })).toEqual([problem]);
});

test.each([
  [{ ports: [port], selector: { b: '1', a: '2' } }, ['ClusterIP', '10.0.0.7', '<none>', '80/TCP', 'a=2,b=1']],
  [
    { type: 'LoadBalancer', ports: [port] },
    ['LoadBalancer', '10.0.0.7', '<pending>', '80:30007/TCP', '<none>'],
  ],
  [{ ports: [port], externalIPs: ['1.2.3.4'] }, ['ClusterIP', '10.0.0.7', '1.2.3.4', '80/TCP', '<none>']],
])('%j is printed as kubectl prints it', (spec, expected) => {
  expect(Object.values(cells(SERVICE, created(SERVICE, { spec: spec })))).toEqual(expected);
});

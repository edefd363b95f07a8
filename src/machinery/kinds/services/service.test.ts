import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  typeOf,
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

test('a requested address is kept', () => {
  expect(create({ ports: [port], clusterIP: '10.0.0.77' }).spec).toMatchObject({
    clusterIP: '10.0.0.77',
    clusterIPs: ['10.0.0.77'],
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

test('a target port of zero counts as absent', () => {
  expect(create({ ports: [{ port: 80, targetPort: 0 }] }).spec).toMatchObject({
    ports: [{ targetPort: 80 }],
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
    'is an ExternalName with an address',
    { type: 'ExternalName', externalName: 'a.b', clusterIP: '10.0.0.8', clusterIPs: ['10.0.0.8'] },
    ['spec.clusterIPs: Forbidden: may not be set for ExternalName services'],
  ],
  [
    'has two ports without names',
    { ports: [port, { port: 81 }] },
    ['spec.ports[0].name: Required value', 'spec.ports[1].name: Required value'],
  ],
  [
    'has two ports with the same name',
    {
      ports: [
        { port: 80, name: 'a' },
        { port: 81, name: 'a' },
      ],
    },
    ['spec.ports[1].name: Duplicate value: "a"'],
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
    'has a port out of range',
    { ports: [{ port: 70_000 }] },
    [
      'spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive',
      'spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
    ],
  ],
  [
    'has an unknown protocol',
    { ports: [{ port: 80, protocol: 'FOO' }] },
    ['spec.ports[0].protocol: Unsupported value: "FOO": supported values: "SCTP", "TCP", "UDP"'],
  ],
  [
    'has a target that is not a port name',
    { ports: [{ port: 80, targetPort: 'A_b' }] },
    [
      'spec.ports[0].targetPort: Invalid value: "A_b": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
    ],
  ],
  [
    'has a target name that is too long',
    { ports: [{ port: 80, targetPort: 'abcdefghijklmnopqrstu' }] },
    ['spec.ports[0].targetPort: Invalid value: "abcdefghijklmnopqrstu": must be no more than 15 characters'],
  ],
  [
    'has an unknown type',
    { ports: [port], type: 'Foo' },
    [
      'spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ],
  ],
  [
    'has an unknown affinity',
    { ports: [port], sessionAffinity: 'Foo' },
    ['spec.sessionAffinity: Unsupported value: "Foo": supported values: "ClientIP", "None"'],
  ],
  [
    'asks for a node port that its type does not have',
    { ports: [{ port: 80, nodePort: 30_000 }] },
    ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
  ],
  [
    'has an invalid address',
    { ports: [port], clusterIP: 'foo' },
    [
      'spec.clusterIPs[0]: Invalid value: "foo": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ],
  ],
  [
    'has an affinity timeout of zero',
    {
      ports: [port],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } },
    },
    [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400',
    ],
  ],
  [
    'has a traffic policy without external traffic',
    { ports: [port], externalTrafficPolicy: 'Local' },
    [
      'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
    ],
  ],
])('a Service is rejected if it %s', (_when, spec, expected) => {
  expect(problems(spec)).toEqual(expected);
});

test.each([{ ports: [port] }, { clusterIP: 'None' }, { type: 'ExternalName', externalName: 'a.b' }])(
  '%j is valid',
  (spec) => {
    expect(problems(spec)).toEqual([]);
  },
);

test('an update that omits the address keeps it', () => {
  const old = created(SERVICE, { spec: { ports: [port], clusterIP: '10.0.0.9' } });
  expect(updated(SERVICE, { spec: { ports: [{ port: 81 }] } }, old)).toMatchObject({
    spec: { clusterIP: '10.0.0.9', clusterIPs: ['10.0.0.9'], ipFamilies: ['IPv4'], ports: [{ port: 81 }] },
  });
});

test('an update that omits node ports keeps them', () => {
  const old = created(SERVICE, { spec: { type: 'NodePort', ports: [{ port: 80, nodePort: 30_100 }] } });
  expect(updated(SERVICE, { spec: { type: 'NodePort', ports: [port] } }, old)).toMatchObject({
    spec: { ports: [{ nodePort: 30_100 }] },
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

test('the name of a Service must start with a letter', () => {
  const { nameProblem } = typeOf(SERVICE).strategy;
  expect(nameProblem?.('1abc')).toContain('a DNS-1035 label must consist of');
  expect(nameProblem?.('abc')).toBeUndefined();
});

test.each([
  [{ ports: [port], selector: { b: '1', a: '2' } }, ['ClusterIP', '10.0.0.7', '<none>', '80/TCP', 'a=2,b=1']],
  [{ clusterIP: 'None' }, ['ClusterIP', 'None', '<none>', '<none>', '<none>']],
  [{ type: 'ExternalName', externalName: 'a.b' }, ['ExternalName', '<none>', 'a.b', '<none>', '<none>']],
  [
    { type: 'LoadBalancer', ports: [port] },
    ['LoadBalancer', '10.0.0.7', '<pending>', '80:30007/TCP', '<none>'],
  ],
  [{ ports: [port], externalIPs: ['1.2.3.4'] }, ['ClusterIP', '10.0.0.7', '1.2.3.4', '80/TCP', '<none>']],
])('%j is printed as kubectl prints it', (spec, expected) => {
  expect(Object.values(cells(SERVICE, created(SERVICE, { spec: spec })))).toEqual(expected);
});

import { expect, test } from 'vitest';
import { clusterDomainFrom, dnsNameProblem, isObjectName, serviceDnsNames } from './dns-names.ts';

const service = { name: 'db', namespace: 'prod', headless: false, clusterDomain: 'cluster.local' };

test('a Service is reached by four names', () => {
  expect(serviceDnsNames(service)).toEqual(['db', 'db.prod', 'db.prod.svc', 'db.prod.svc.cluster.local']);
});

test('the pods of a headless Service are reached by names below it', () => {
  expect(serviceDnsNames({ ...service, headless: true, clusterDomain: 'k8s.example' })).toEqual([
    'db',
    'db.prod',
    'db.prod.svc',
    'db.prod.svc.k8s.example',
    '*.db.prod.svc',
    '*.db.prod.svc.k8s.example',
  ]);
});

test.each([
  ['search prod.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.0.0.10\n', 'cluster.local'],
  ['nameserver 10.0.0.10\nsearch svc.k8s.example. k8s.example\n', 'k8s.example'],
  ['search svc.old.example\r\nsearch\tprod.svc.new.example\tsvc.new.example\r\n', 'new.example'],
  ['search example.com\n', undefined],
  ['# search svc.cluster.local\n', undefined],
  ['search svc.\n', undefined],
  ['', undefined],
])('the cluster domain in %j is %s', (text, domain) => {
  expect(clusterDomainFrom(text)).toBe(domain);
});

test.each(['db', 'db.prod.svc', '*.db.prod.svc', '9to5.x', 'a'.repeat(63), `${'a.'.repeat(126)}a`])(
  '%s can stand in a cert',
  (name) => {
    expect(dnsNameProblem(name)).toBeUndefined();
  },
);

test.each([
  ['', 'has the label ""'],
  ['*', 'wildcard'],
  ['a.*.b', 'wildcard'],
  ['w*.b', 'wildcard'],
  ['DB.prod', 'has the label "DB"'],
  ['-db', 'has the label "-db"'],
  ['db.', 'has the label ""'],
  ['db prod', 'has the label "db prod"'],
  ['d\u0000b', 'has the label'],
  ['a'.repeat(64), 'of 64 characters: at most 63'],
  [`${'a.'.repeat(127)}a`, 'is 255 characters long: at most 253'],
])('%j cannot stand in a cert', (name, problem) => {
  expect(dnsNameProblem(name)).toContain(problem);
});

test.each([
  ['db-tls', true],
  ['db.tls', true],
  ['a'.repeat(100), true],
  ['a'.repeat(254), false],
  ['', false],
  ['DB', false],
  ['db_tls', false],
  ['db/tls', false],
  ['-db', false],
  ['db.', false],
])('whether an object can be called %j: %s', (name, can) => {
  expect(isObjectName(name)).toBe(can);
});

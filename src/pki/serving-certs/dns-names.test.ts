import { expect, test } from 'vitest';
import {
  clusterDomainFrom,
  dnsNameProblem,
  isInside,
  isObjectName,
  podDnsNames,
  podNames,
  serviceDnsNames,
} from './dns-names.ts';

const service = {
  name: 'db',
  namespace: 'prod',
  clusterDomain: 'cluster.local',
  shortNames: true,
  wildcard: false,
};

test('a Service is reached by four names', () => {
  expect(serviceDnsNames(service)).toEqual(['db', 'db.prod', 'db.prod.svc', 'db.prod.svc.cluster.local']);
});

test('what stands below a Service is reached through a wildcard', () => {
  expect(serviceDnsNames({ ...service, wildcard: true, clusterDomain: 'k8s.example' })).toEqual([
    'db',
    'db.prod',
    'db.prod.svc',
    'db.prod.svc.k8s.example',
    '*.db.prod.svc',
    '*.db.prod.svc.k8s.example',
  ]);
});

test('without short names those with svc are left', () => {
  expect(serviceDnsNames({ ...service, shortNames: false })).toEqual([
    'db.prod.svc',
    'db.prod.svc.cluster.local',
  ]);
});

test('pods are reached by their names below the Service', () => {
  expect(podDnsNames(['db-0', 'db-1'], service)).toEqual([
    'db-0.db.prod.svc',
    'db-0.db.prod.svc.cluster.local',
    'db-1.db.prod.svc',
    'db-1.db.prod.svc.cluster.local',
  ]);
});

test.each([
  ['db-0', ['db-0']],
  ['db:3', ['db-0', 'db-1', 'db-2']],
  ['db:0', undefined],
  ['db:101', undefined],
  ['db:', undefined],
  ['db.0', undefined],
  ['*', undefined],
  [`${'a'.repeat(62)}:1`, undefined],
  ['DB:1', undefined],
])('%j stands for the pods %j', (text, pods) => {
  expect(podNames(text, 100)).toEqual(pods);
});

test.each([
  ['a.example.com', 'example.com', true],
  ['example.com', 'example.com', true],
  ['*.example.com', 'example.com', true],
  ['notexample.com', 'example.com', false],
  ['example.com.evil', 'example.com', false],
])('whether %s lies in %s: %s', (name, domain, inside) => {
  expect(isInside(name, domain)).toBe(inside);
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

import { describe, expect, test } from 'vitest';
import {
  clusterDomainFrom,
  dnsNameProblem,
  permittedDomains,
  podNames,
  servingCertNames,
  shortNames,
  type NamedService,
} from './dns-names.ts';

const service: NamedService = { name: 'db', namespace: 'prod', headless: false, annotations: {} };
const rules = {
  clusterDomain: 'cluster.local',
  dnsSuffixes: [],
  shortNames: false,
  clusterIPs: false,
  namespaceSuffixes: new Map<string, string>(),
  nameConstraints: false,
};

const SHORT_NAMES = 'gatehouse.dev/serving-cert-short-names';

test('the Service, or else the operator, decides about names without svc', () => {
  const all = ['db', 'db.prod', 'db.prod.svc', 'db.prod.svc.cluster.local'];
  expect(servingCertNames({ ...service, annotations: { [SHORT_NAMES]: 'true' } }, rules)).toEqual(all);
  expect(servingCertNames(service, { ...rules, shortNames: true })).toEqual(all);
  const no = { ...service, annotations: { [SHORT_NAMES]: 'false' } };
  expect(servingCertNames(no, { ...rules, shortNames: true })).toEqual(all.slice(2));
});

test('a Service cannot request short names that no CA may sign', () => {
  const constrained = { ...rules, nameConstraints: true };
  expect(servingCertNames(service, constrained)).toEqual(['db.prod.svc', 'db.prod.svc.cluster.local']);
  expect(() => servingCertNames({ ...service, annotations: { [SHORT_NAMES]: 'true' } }, constrained)).toThrow(
    /serving-cert-short-names: the CA signs no short names \(--ca-name-constraints\)/,
  );
});

describe('domains of namespaces', () => {
  const suffixes = {
    ...rules,
    dnsSuffixes: ['example.com'],
    namespaceSuffixes: new Map([
      ['prod.example.com', 'prod'],
      ['pay.prod.example.com', 'pay'],
      ['bank.example.org', 'pay'],
      ['prod.example.org', 'prod'],
      ['deep.below.prod.example.org', 'pay'],
    ]),
  };
  const asking = (name: string, namespace = 'prod') =>
    servingCertNames(
      { ...service, namespace, annotations: { 'gatehouse.dev/serving-cert-dns-names': name } },
      suffixes,
    );

  test.each([
    ['prod', 'prod.example.com'],
    ['prod', 'a.prod.example.com'],
    ['prod', '*.a.prod.example.com'],
    ['prod', '*.prod.example.org'],
    ['prod', 'mypay.prod.example.com'],
    ['pay', 'pay.prod.example.com'],
    ['pay', '*.pay.prod.example.com'],
    ['pay', 'bank.example.org'],
    ['shop', 'shop.example.com'],
  ])('%s may use %s', (namespace, name) => {
    expect(asking(name, namespace)).toContain(name);
  });

  test.each([
    ['prod', 'pay.prod.example.com'],
    ['prod', 'a.pay.prod.example.com'],
    ['prod', '*.prod.example.com'], // covers pay.prod.example.com
    ['prod', 'bank.example.org'],
    ['prod', '*.below.prod.example.org'], // covers deep.below.prod.example.org
    ['pay', 'prod.example.com'],
    ['shop', 'a.prod.example.com'],
    ['shop', '*.example.com'], // covers prod.example.com
    ['shop', '*.prod.example.com'],
  ])('%s cannot use %s, which belongs to another namespace', (namespace, name) => {
    expect(() => asking(name, namespace)).toThrow('belongs to another namespace');
  });

  test('a short name is no way into the domain of another namespace', () => {
    const rule = { ...rules, shortNames: true, namespaceSuffixes: new Map([['acme.com', 'shop']]) };
    const named = (name: string, annotations = {}) =>
      servingCertNames({ ...service, name, namespace: 'com', annotations }, rule);
    expect(() => named('acme', { [SHORT_NAMES]: 'true' })).toThrow(
      'serving-cert-short-names: "acme.com" is in a domain that belongs to another namespace: set it to false',
    );
    expect(named('other')).toContain('other.com');
    // A default of the operator must not stop the renewal of a Service whose author did not ask for short names.
    expect(named('acme')).toEqual(['acme', 'acme.com.svc', 'acme.com.svc.cluster.local']);
    expect(shortNames({ ...service, name: 'acme', namespace: 'com' }, rule).omitted).toEqual(['acme.com']);
  });

  test('the message names only the domains of the namespace itself', () => {
    expect(() => asking('other.example.org')).toThrow(
      '(example.com, prod.example.com, prod.example.org; --serving-cert-dns-suffixes,',
    );
  });

  test('no namespace gets a name of the cluster', () => {
    const rule = {
      ...suffixes,
      namespaceSuffixes: new Map([
        ['web.svc', 'prod'],
        ['cluster.local', 'prod'],
      ]),
    };
    const ofUnknownDomain = ['db.web.svc.k8s.example.com', '*.web.svc.k8s.example.com', 'svc.example.com'];
    for (const name of ['db.web.svc', 'db.web.svc.cluster.local', ...ofUnknownDomain]) {
      const annotations = { 'gatehouse.dev/serving-cert-dns-names': name };
      expect(() => servingCertNames({ ...service, annotations }, rule)).toThrow("the cluster's own domain");
    }
  });

  test('a CA with name constraints permits them', () => {
    expect(permittedDomains(suffixes)).toEqual(
      expect.arrayContaining([...suffixes.namespaceSuffixes.keys()]),
    );
  });
});

test('a headless Service gets a wildcard for the names below it', () => {
  expect(
    servingCertNames({ ...service, headless: true }, { ...rules, clusterDomain: 'k8s.example' }),
  ).toEqual(['db.prod.svc', 'db.prod.svc.k8s.example', '*.db.prod.svc', '*.db.prod.svc.k8s.example']);
});

test('the names of pods are below the name of the Service', () => {
  const annotations = { 'gatehouse.dev/serving-cert-pod-names': 'db:2' };
  expect(servingCertNames({ ...service, headless: true, annotations }, rules).slice(2)).toEqual([
    'db-0.db.prod.svc',
    'db-0.db.prod.svc.cluster.local',
    'db-1.db.prod.svc',
    'db-1.db.prod.svc.cluster.local',
  ]);
});

describe('F8: short names of pods', () => {
  const headless = { ...service, headless: true };
  const short = { ...rules, shortNames: true };
  const names = (pods: string, ruled: typeof short = short) => {
    const annotations: Record<string, string> =
      pods === '' ? {} : { 'gatehouse.dev/serving-cert-pod-names': pods };
    return servingCertNames({ ...headless, annotations }, ruled).filter((name) => !name.includes('.svc'));
  };

  test('are in the cert with the namespace: db.prod could be a pod of a Service prod elsewhere', () => {
    expect(names('')).toEqual(['db', 'db.prod', '*.db.prod']);
    expect(names('db:2')).toEqual(['db', 'db.prod', 'db-0.db.prod', 'db-1.db.prod']);
  });

  test('are left out if they do not fit, because a larger limit of pods held before', () => {
    expect(names('db:32')).toHaveLength(34);
    expect(names('db:33')).toEqual(['db', 'db.prod']);
  });

  test('are never names of Services in any namespace', () => {
    const inNamespace = (namespace: string) => servingCertNames({ ...headless, namespace }, short);
    expect(inNamespace('svc')).not.toContain('*.db.svc');
    expect(inNamespace('pay')).toContain('*.db.pay');
  });

  test('are no way into the domain of another namespace', () => {
    const namespaceSuffixes = new Map([['db-0.db.prod', 'pay']]);
    expect(names('db:2', { ...short, namespaceSuffixes })).not.toContain('db-0.db.prod');
  });
});

test('the largest StatefulSet that the message names fits', () => {
  const annotations = { 'gatehouse.dev/serving-cert-pod-names': 'db:49' };
  expect(servingCertNames({ ...service, headless: true, annotations }, rules)).toHaveLength(100);
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
])('%j means the pods %j', (text, pods) => {
  expect(podNames(text, 100)).toEqual(pods);
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
  'a cert can contain the name %s',
  (name) => {
    expect(dnsNameProblem(name)).toBeUndefined();
  },
);

test.each([
  ['', 'has the label ""'],
  ['*', 'wildcard'],
  ['a.*.b', 'wildcard'],
  ['w*.b', 'wildcard'],
  ['DB.prod', 'has upper-case letters: write "db.prod"'],
  ['-db', 'has the label "-db"'],
  ['db.', 'ends with a dot: remove it'],
  ['db..x', 'has the label ""'],
  ['db prod', 'has the label "db prod"'],
  ['d\u0000b', 'has the label'],
  ['a'.repeat(64), 'of 64 characters: at most 63'],
  [`${'a.'.repeat(127)}a`, 'is 255 characters long: at most 253'],
])('a cert cannot contain the name %j', (name, problem) => {
  expect(dnsNameProblem(name)).toContain(problem);
});

import { expect, test } from 'vitest';

import { ConfigError, resolveConfig } from './config.ts';

test('the configuration has defaults', () => {
  expect(resolveConfig({}, {})).toMatchObject({
    namespace: 'gatehouse-system',
    port: 8443,
    connectionTimeoutMs: 120_000, // longer than the API server keeps idle connections (90 s)
    maxAdmissionReviews: 1_000,
    drainDelayMs: 10_000,
    lease: { durationMs: 12_000, renewDeadlineMs: 8_000, retryMs: 2_000 },
    kubeconfig: undefined,
  });
});

test('a flag takes precedence over the environment, and the environment over the file', () => {
  const environment = { GATEHOUSE_PORT: '2', GATEHOUSE_SERVICE: 'from-environment' };
  const config = resolveConfig({ port: '1' }, environment, {
    port: '3',
    service: 'from-file',
    namespace: 'from-file',
  });
  expect(config).toMatchObject({ port: 1, service: 'from-environment', namespace: 'from-file' });
});

test('every problem is reported at once', () => {
  const broken = () => resolveConfig({ port: '99999', 'drain-delay': 'soon', 'log-level': 'loud' }, {});
  expect(broken).toThrow(ConfigError);
  expect(broken).toThrow(/--port: .*\n--drain-delay: .*\n--log-level: "loud" is not one of debug/);
});

test('a lease that ends before its renewal is rejected', () => {
  expect(() => resolveConfig({ 'lease-duration': '5s' }, {})).toThrow(/must be longer than --renew-deadline/);
});

test('a client always has a timeout, and it may be short', () => {
  expect(resolveConfig({ 'connection-timeout': '5s' }, {}).connectionTimeoutMs).toBe(5_000);
  // Node treats 0 as no timeout.
  expect(() => resolveConfig({ 'connection-timeout': '0s' }, {})).toThrow(
    '--connection-timeout: "0s" is too short',
  );
});

test.each(['0', '-1', '1.5', 'many', ''])('"%s" is not a number of reviews', (written) => {
  expect(() => resolveConfig({ 'max-admission-reviews': written }, {})).toThrow(
    `--max-admission-reviews: "${written}" is not a number of at least 1`,
  );
});

test.each([
  ['500ms', 500],
  ['10s', 10_000],
  ['1.5h', 5_400_000],
  ['90d', 7_776_000_000],
])('%s are %d ms', (written, expected) => {
  expect(resolveConfig({ 'drain-delay': written }, {}).drainDelayMs).toBe(expected);
});

test('a CA has defaults for its lifetime and the propagation wait, and a minimum lifetime', () => {
  expect(resolveConfig({}, {})).toMatchObject({
    ca: { secret: undefined, lifetimeMs: 730 * 86_400_000, nameConstraints: false },
    caPropagationWaitMs: 600_000,
  });
  expect(() => resolveConfig({ 'ca-lifetime': '90m' }, {})).toThrow('--ca-lifetime: "90m" is too short');
});

test('the longest life of a certificate is 90 days, and the operator may allow up to a year', () => {
  const longest = (value?: string) =>
    resolveConfig(value === undefined ? {} : { 'serving-cert-max-duration': value }, {}).servingCerts
      .maxLifetimeMs;
  expect(longest()).toBe(90 * 86_400_000);
  expect(longest('365d')).toBe(365 * 86_400_000);
  for (const odd of ['366d', '30m', 'soon'])
    expect(() => longest(odd)).toThrow('--serving-cert-max-duration');
});

test('a CA with name constraints cannot sign short names', () => {
  const both = { 'ca-name-constraints': 'true', 'serving-cert-short-names': 'true' };
  expect(() => resolveConfig(both, {})).toThrow(
    '--serving-cert-short-names cannot be true with --ca-name-constraints',
  );
  expect(resolveConfig({ 'ca-name-constraints': 'true' }, {}).ca.nameConstraints).toBe(true);
});

test('a CA with name constraints cannot sign IP addresses', () => {
  const both = { 'ca-name-constraints': 'true', 'serving-cert-cluster-ips': 'true' };
  expect(() => resolveConfig(both, {})).toThrow('--serving-cert-cluster-ips cannot be true with');
});

test.each([
  ['zero', '0s', '--ca-lifetime: "0s" is too short: a CA needs at least 2h'],
  ['negative', '-2h', '--ca-lifetime: "-2h" is not a duration'],
])('service-ca TestInitializeSigningSecret: %s duration: is rejected', (_which, lifetime, message) => {
  expect(() => resolveConfig({ 'ca-lifetime': lifetime }, {})).toThrow(message);
});

test.each(['66', '0%', '19%', '91%', '100%', '50.5%', '30d', ''])(
  '"%s" is no point of renewal',
  (written) => {
    expect(() => resolveConfig({ 'serving-cert-renew-after': written }, {})).toThrow(
      `--serving-cert-renew-after: "${written}" is not a whole percentage from 20% to 90%`,
    );
  },
);

test('certificates are renewed after two thirds of their lifetime, or at the point of the operator', () => {
  expect(resolveConfig({}, {}).servingCerts.renewAfter).toBe(66);
  expect(resolveConfig({ 'serving-cert-renew-after': '20%' }, {}).servingCerts.renewAfter).toBe(20);
});

test('DNS suffixes are a list, and none may cover the short names of Services', () => {
  const suffixes = (text: string) =>
    resolveConfig({ 'serving-cert-dns-suffixes': text }, {}).servingCerts.dnsSuffixes;
  expect(suffixes('')).toEqual([]);
  expect(suffixes('apps.example.com, corp.internal')).toEqual(['apps.example.com', 'corp.internal']);
  expect(() => suffixes('prod')).toThrow('--serving-cert-dns-suffixes: "prod" is too wide');
  expect(() => suffixes('*.example.com')).toThrow('is not a DNS name');
  expect(() => suffixes('web.svc.k8s.example')).toThrow(
    '--serving-cert-dns-suffixes: "web.svc.k8s.example" has the label svc, which only the names of Services may have',
  );
});

test('each domain belongs to one namespace', () => {
  const suffixes = (text: string, all = '') =>
    resolveConfig({ 'serving-cert-namespace-suffixes': text, 'serving-cert-dns-suffixes': all }, {})
      .servingCerts.namespaceSuffixes;
  expect([...suffixes('')]).toEqual([]);
  expect([...suffixes('shop=shop.example.com, shop=example.org,pay = pay.example.com')]).toEqual([
    ['shop.example.com', 'shop'],
    ['example.org', 'shop'],
    ['pay.example.com', 'pay'],
  ]);
  expect(() => suffixes('shop.example.com')).toThrow('is not a namespace and a domain, such as shop=');
  expect(() => suffixes('a=b.c=d.e')).toThrow('is not a namespace and a domain');
  expect(() => suffixes('a=example.com,b=example.com')).toThrow('a and b cannot share "example.com"');
  expect(() => suffixes('Shop=example.com')).toThrow('"Shop" is not a DNS label');
  expect(() => suffixes('shop=com')).toThrow('"com" is too wide');
  expect(() => suffixes('shop=*.example.com')).toThrow('is not a DNS name');
  expect(() => suffixes('shop=shop.svc')).toThrow('"shop.svc" has the label svc');
  expect(() => suffixes('shop=')).toThrow('"shop=" is not a namespace and a domain');
  expect(() => suffixes('shop=example.com', 'example.com')).toThrow('is also in --serving-cert-dns-suffixes');
});

test('OpenShift compatibility is off by default', () => {
  expect(resolveConfig({}, {}).compat).toEqual([]);
  expect(resolveConfig({ compat: 'openshift,cert-manager' }, {}).compat).toEqual([
    'openshift',
    'cert-manager',
  ]);
  expect(() => resolveConfig({ compat: 'knative' }, {})).toThrow('--compat: "knative" is not one of');
});

test('policy reports are off by default', () => {
  expect(resolveConfig({}, {}).policyReports).toBe(false);
  expect(resolveConfig({ 'policy-reports': 'true' }, {}).policyReports).toBe(true);
});

test('the status page is off by default, and only true turns it on', () => {
  expect(resolveConfig({}, {}).statusPage).toBe(false);
  expect(resolveConfig({ 'status-page': 'true' }, {}).statusPage).toBe(true);
  expect(resolveConfig({}, { GATEHOUSE_STATUS_PAGE: 'true' }).statusPage).toBe(true);
  expect(() => resolveConfig({ 'status-page': 'open' }, {})).toThrow(
    '--status-page: "open" is not one of true, false',
  );
});

test('every part runs in all namespaces, unless settings say otherwise', () => {
  expect(resolveConfig({}, {})).toMatchObject({ without: [], namespaces: undefined });
  const restricted = resolveConfig({ without: 'restores, conversions', namespaces: 'shop,shop' }, {});
  expect(restricted).toMatchObject({
    without: ['restores', 'conversions'],
    namespaces: ['gatehouse-system', 'shop'],
  });
  expect(() => resolveConfig({ without: 'admission' }, {})).toThrow('--without: "admission" is not one of');
  expect(() => resolveConfig({ namespaces: 'Shop' }, {})).toThrow('--namespaces: "Shop" is not a DNS label');
});

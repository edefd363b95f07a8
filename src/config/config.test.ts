import { expect, test } from 'vitest';

import { ConfigError, resolveConfig, type Source } from './config.ts';
import { parseBytes } from './quantities.ts';

const DAY = 86_400_000;
const CONSTRAINED = { 'ca-name-constraints': 'true' };

test('the configuration has defaults', () => {
  expect(resolveConfig({}, {})).toMatchObject({
    connectionTimeoutMs: 120_000, // longer than the API server keeps idle connections (90 s)
    lease: { durationMs: 12_000, renewDeadlineMs: 8_000, retryMs: 2_000 },
    clients: { ca: undefined, names: [], scope: 'admission' },
    servingCerts: { maxLifetimeMs: 90 * DAY, dnsSuffixes: [], namespaceSuffixes: new Map() },
    statusPage: false,
    compat: [],
    without: [],
    namespaces: undefined,
  });
});

test('a flag takes precedence over the environment, and the environment over the file', () => {
  const environment = { GATEHOUSE_PORT: '2', GATEHOUSE_SERVICE: 'from-environment' };
  const file = { port: '3', service: 'from-file', namespace: 'from-file' };
  expect(resolveConfig({ port: '1' }, environment, file)).toMatchObject({
    port: 1,
    service: 'from-environment',
    namespace: 'from-file',
  });
});

test('an error lists all problems', () => {
  const broken = () => resolveConfig({ port: '99999', 'drain-delay': 'soon', 'log-level': 'loud' }, {});
  expect(broken).toThrow(ConfigError);
  expect(broken).toThrow(/--port: .*\n--drain-delay: .*\n--log-level: "loud" is not one of debug/);
});

test.each<readonly [flags: Source, config: object]>([
  [{ 'connection-timeout': '5s' }, { connectionTimeoutMs: 5_000 }],
  [{ 'drain-delay': '500ms' }, { drainDelayMs: 500 }],
  [{ 'drain-delay': '1.5h' }, { drainDelayMs: 5_400_000 }],
  [{ 'drain-delay': '90d' }, { drainDelayMs: 90 * DAY }],
  [{ 'conversion-body-limit': '8MiB' }, { conversionBodyLimit: 8 * 1024 ** 2 }],
  [{ 'serving-cert-max-duration': '365d' }, { servingCerts: { maxLifetimeMs: 365 * DAY } }],
  [{ 'serving-cert-renew-after': '20%' }, { servingCerts: { renewAfter: 20 } }],
  [CONSTRAINED, { ca: { nameConstraints: true } }],
  [
    { 'serving-cert-dns-suffixes': 'apps.example.com, corp.internal' },
    { servingCerts: { dnsSuffixes: ['apps.example.com', 'corp.internal'] } },
  ],
  [{ compat: 'openshift,cert-manager' }, { compat: ['openshift', 'cert-manager'] }],
  [{ 'policy-reports': 'true' }, { policyReports: true }],
  [{ 'status-page': 'true' }, { statusPage: true }],
  [{ without: 'restores, conversions' }, { without: ['restores', 'conversions'] }],
  [{ namespaces: 'shop,shop' }, { namespaces: ['gatehouse-system', 'shop'] }],
  [
    { 'client-ca': '/ca.crt', 'client-names': 'system:kube-apiserver, api.example.com,,api.example.com' },
    { clients: { names: ['system:kube-apiserver', 'api.example.com'] } },
  ],
])('%j sets %j', (flags, config) => {
  expect(resolveConfig(flags, {})).toMatchObject(config);
});

const notRenewal = ['66', '0%', '19%', '91%', '100%', '50.5%', '30d', ''].map(
  (text) =>
    [{ 'serving-cert-renew-after': text }, `"${text}" is not a whole percentage from 20% to 90%`] as const,
);
const notCount = ['0', '-1', '1.5', 'many', ''].map(
  (text) => [{ 'max-admission-reviews': text }, `"${text}" is not a number of at least 1`] as const,
);

test.each<readonly [flags: Source, message: string]>([
  [{ 'lease-duration': '5s' }, 'must be longer than --renew-deadline'],
  [{ 'connection-timeout': '0s' }, '--connection-timeout: "0s" is too short'], // Node treats 0 as no timeout
  ...notCount,
  ...notRenewal,
  [{ 'ca-lifetime': '90m' }, '--ca-lifetime: "90m" is too short'],
  [{ 'ca-lifetime': '0s' }, '--ca-lifetime: "0s" is too short: a CA needs at least 2h'],
  [{ 'ca-lifetime': '-2h' }, '--ca-lifetime: "-2h" is not a duration'],
  [{ 'serving-cert-max-duration': '366d' }, '--serving-cert-max-duration'],
  [{ 'serving-cert-max-duration': '30m' }, '--serving-cert-max-duration'],
  [{ ...CONSTRAINED, 'serving-cert-short-names': 'true' }, '--serving-cert-short-names cannot be true with'],
  [{ ...CONSTRAINED, 'serving-cert-cluster-ips': 'true' }, '--serving-cert-cluster-ips cannot be true with'],
  [{ 'serving-cert-dns-suffixes': 'prod' }, '--serving-cert-dns-suffixes: "prod" is too wide'],
  [{ 'serving-cert-dns-suffixes': '*.example.com' }, 'is not a DNS name'],
  [
    { 'serving-cert-dns-suffixes': 'web.svc.k8s.example' },
    '--serving-cert-dns-suffixes: "web.svc.k8s.example" has the label svc, which only the names of Services may have',
  ],
  [{ compat: 'knative' }, '--compat: "knative" is not one of'],
  [{ 'status-page': 'open' }, '--status-page: "open" is not one of true, false'],
  [{ without: 'admission' }, '--without: "admission" is not one of'],
  [{ namespaces: 'Shop' }, '--namespaces: "Shop" is not a DNS label'],
  [{ 'client-ca': '/ca', 'client-names': '*.a.com' }, '--client-names: "*.a.com" is a pattern'],
  [{ 'client-ca': '/ca', 'client-names': '.a.com' }, '--client-names: ".a.com" is a pattern'],
  [{ 'client-names': 'a' }, '--client-names and --client-ca-for require --client-ca'],
  [{ 'client-ca-for': 'all' }, '--client-names and --client-ca-for require --client-ca'],
  [{ 'conversion-body-limit': '1MiB' }, '--conversion-body-limit: "1MiB" is too small'],
  [{ 'conversion-body-limit': '1GiB' }, '--conversion-body-limit: "1GiB" is too large'],
])('%j is refused: %s', (flags, message) => {
  expect(() => resolveConfig(flags, {})).toThrow(message);
});

test('each domain belongs to one namespace', () => {
  const suffixes = (text: string, all = '') =>
    resolveConfig({ 'serving-cert-namespace-suffixes': text, 'serving-cert-dns-suffixes': all }, {})
      .servingCerts.namespaceSuffixes;
  expect([...suffixes('shop=shop.example.com, shop=example.org,pay = pay.example.com')]).toEqual([
    ['shop.example.com', 'shop'],
    ['example.org', 'shop'],
    ['pay.example.com', 'pay'],
  ]);
  for (const text of ['shop.example.com', 'a=b.c=d.e', 'shop='])
    expect(() => suffixes(text)).toThrow(`"${text}" is not a namespace and a domain, such as shop=`);
  expect(() => suffixes('a=example.com,b=example.com')).toThrow('a and b cannot share "example.com"');
  expect(() => suffixes('Shop=example.com')).toThrow('"Shop" is not a DNS label');
  expect(() => suffixes('shop=shop.svc')).toThrow('"shop.svc" has the label svc');
  expect(() => suffixes('shop=example.com', 'example.com')).toThrow(
    'is in --serving-cert-dns-suffixes already',
  );
});

test.each([
  ['0', 0],
  ['1048576', 1_048_576],
  ['512KiB', 524_288],
  ['64Mi', 67_108_864],
  ['1.5 GiB', 1_610_612_736],
])('%s are %d bytes', (text, bytes) => {
  expect(parseBytes(text)).toBe(bytes);
});

test.each(['', 'MiB', '-1MiB', '1TiB', '1e3', '64 Megabytes', `${'9'.repeat(400)}MiB`])(
  '%j is not a size',
  (text) => {
    expect(() => parseBytes(text)).toThrow('is not a size; write a number and a unit');
  },
);

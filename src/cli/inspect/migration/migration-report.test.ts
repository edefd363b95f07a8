import { expect, test } from 'vitest';

import {
  authority,
  bundle,
  FORBIDDEN,
  NOW,
  read,
  serving,
  stranger,
} from '../../../../test/support/cli/readings.ts';
import { base64, serverOf, type Server } from '../../../../test/support/pki/fixtures.ts';
import { toSecretData } from '../../../pki/authority/secret.ts';
import { caBundle } from '../../../pki/authority/bundle.ts';
import { after, HOUR } from '../../../pki/durations.ts';
import { TARGET_KINDS, type RawTarget } from '../../../pki/injection/target.ts';
import type { Service } from '../../../pki/serving-certs/request.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import { formatMigration } from './format-migration.ts';
import { migrationReport } from './migration-report.ts';
import { toPresentSecret, type Issuer, type MigrationReadings, type System } from './read-migration.ts';

const BETA = 'service.beta.openshift.io/';
const CONTEXT = {
  ...{ server: 'https://api.example.com', version: 'v1.36.0', namespace: 'gatehouse-system' },
  now: NOW,
};

/** A certificate of another CA, as service-ca makes it. */
const legacy = await serverOf(stranger, after(NOW, -HOUR), 'RSA-2048');
const legacyBundle = caBundle(stranger, NOW);

const service = (annotations: Record<string, string>, name = 'db'): Service => ({
  metadata: { namespace: 'prod', name, uid: `uid of ${name}`, annotations },
  spec: { clusterIP: '10.96.0.7' },
});
const asksServiceCa = service({ [`${BETA}serving-cert-secret-name`]: 'db-tls' });

const secretOf = (server: Server, change: Secret['metadata'] = {}, type = 'kubernetes.io/tls') =>
  toPresentSecret({
    metadata: { namespace: 'prod', name: 'db-tls', ...change },
    type,
    data: { 'tls.crt': base64(server.chain), 'tls.key': base64(server.keyPair.privateKey) },
  });
const byServiceCa = { annotations: { [`${BETA}originating-service-uid`]: 'uid of db' } };

const empty: MigrationReadings = {
  authority: read({ data: toSecretData(authority) }),
  caBundle: read(undefined),
  services: read([]),
  targets: [],
  sources: new Map(),
  secrets: new Map(),
  certificates: read([]),
  issuers: read([]),
  clusterIssuers: read([]),
};
const reportOf = (change: Partial<MigrationReadings>, system: System = 'service-ca') =>
  migrationReport({ ...empty, ...change }, system, CONTEXT);
const scene = (secret: ReturnType<typeof secretOf> | undefined, ...services: readonly Service[]) => ({
  services: read(services.length === 0 ? [asksServiceCa] : services),
  secrets: new Map([['prod/db-tls', read(secret)]]),
});
const onlyRow = (change: Partial<MigrationReadings>, system?: System) => {
  const { items } = reportOf(change, system);
  expect(items).toHaveLength(1);
  return items[0];
};

test('nothing to migrate is ready', () => {
  const report = reportOf({});
  expect(report).toMatchObject({ ready: true, unread: [], items: [] });
  expect(formatMigration(report, false)).toContain('Objects that use service-ca: none');
});

test('a Secret of service-ca is adopted, with a new key from another CA', () => {
  expect(onlyRow(scene(secretOf(legacy, byServiceCa)))).toMatchObject({
    ...{ kind: 'Service', namespace: 'prod', name: 'db', owner: 'service-ca', state: 'Ready' },
    changes: [
      'new key and certificate: ECDSA-P256, 90 days (now RSA-2048, 1 days)',
      'additional DNS names: db.prod.svc.cluster.local',
      expect.stringMatching(
        /^another CA: clients that trust only "CN=.*" reject the new certificate$/,
      ) as string,
    ],
  });
});

test('with the CA of service-ca, clients keep their trust', () => {
  const imported = { authority: read({ data: toSecretData(stranger) }) };
  const row = onlyRow({ ...scene(secretOf(legacy, byServiceCa)), ...imported });
  expect(row?.changes).toContain('the CA stays');
});

test('a Secret that Gatehouse has taken over is done, although the marks of service-ca stay', () => {
  const marks = { ...byServiceCa.annotations, 'gatehouse.dev/serving-cert-service': 'db' };
  expect(onlyRow(scene(secretOf(serving, { annotations: marks })))).toMatchObject({
    ...{ owner: 'Gatehouse', state: 'Done', changes: [] },
  });
  const forged = onlyRow(scene(secretOf(legacy, { annotations: marks })));
  expect(forged).toMatchObject({ owner: 'service-ca', state: 'Ready' });
});

test.each<[string, ReturnType<typeof secretOf>, readonly Service[], string]>([
  ['belongs to another Service', secretOf(legacy), [], 'belongs to another owner'],
  ['has another type', secretOf(legacy, byServiceCa, 'Opaque'), [], 'is not of type kubernetes.io/tls'],
  [
    'is claimed by an older Service',
    secretOf(legacy, byServiceCa),
    [
      asksServiceCa,
      {
        metadata: {
          ...{ namespace: 'prod', name: 'older', uid: '0', creationTimestamp: '2020-01-01T00:00:00Z' },
          annotations: { 'gatehouse.dev/serving-cert-secret-name': 'db-tls' },
        },
      },
    ],
    'belongs to the older Service older',
  ],
])('a Service is blocked if its Secret %s', (_what, secret, services, message) => {
  expect(onlyRow(scene(secret, ...services))).toMatchObject({
    state: 'Blocked',
    changes: [expect.stringContaining(message)],
  });
});

test('a Secret that does not exist is created, and one that cannot be read is reported', () => {
  expect(onlyRow(scene(undefined))).toMatchObject({ owner: 'none', state: 'Ready' });
  const report = reportOf({ ...scene(undefined), secrets: new Map([['prod/db-tls', FORBIDDEN]]) });
  expect(report).toMatchObject({
    ready: false,
    unread: [{ what: 'Secret prod/db-tls', reason: 'Forbidden' }],
    items: [{ owner: undefined, state: 'Unknown' }],
  });
});

test('a Service names the settings that its annotations need', () => {
  const asks = service({
    ...asksServiceCa.metadata?.annotations,
    'gatehouse.dev/serving-cert-dns-names': 'db.example.com',
    'gatehouse.dev/serving-cert-cluster-ips': 'true',
  });
  const row = onlyRow(scene(undefined, asks));
  expect(row?.state).toBe('Ready');
  expect(row?.changes).toEqual([
    expect.stringMatching(/^invalid with the default settings: .*--serving-cert-dns-suffixes/) as string,
    'no IP addresses with the default settings: they need --serving-cert-cluster-ips',
    'Secret db-tls is created',
  ]);
});

test('a kind that may not be listed makes the inventory incomplete', () => {
  const report = reportOf({
    services: FORBIDDEN,
    targets: [{ kind: TARGET_KINDS.apiService, objects: FORBIDDEN }],
  });
  expect(report.ready).toBe(false);
  expect(report.unread.map(({ what }) => what)).toEqual(['Services', 'APIServices']);
  const text = formatMigration(report, false);
  expect(text).toContain('(no permission to read APIServices: alice may not)');
  expect(text).toContain('cannot replace service-ca for all objects yet');
});

const configMap = (
  annotations: Record<string, string>,
  pem: string,
  manager = 'service-ca-operator',
): RawTarget => ({
  metadata: {
    ...{ namespace: 'prod', name: 'trust', annotations },
    managedFields: [{ manager, fieldsV1: { 'f:data': { 'f:service-ca.crt': {} } } }],
  },
  data: { 'service-ca.crt': pem },
});
const targets = (object: RawTarget, kind = TARGET_KINDS.configMap) => ({
  targets: [{ kind, objects: read([object]) }],
});
const ASKS = { [`${BETA}inject-cabundle`]: 'true' };

test('a bundle that loses a root names the Secrets whose certificate its clients then reject', () => {
  const report = reportOf({
    ...scene(secretOf(legacy, byServiceCa)),
    ...targets(configMap(ASKS, legacyBundle)),
  });
  expect(report.items[1]).toMatchObject({
    ...{ kind: 'ConfigMap', name: 'trust', owner: 'service-ca', state: 'Ready' },
    changes: [
      expect.stringMatching(/^the bundle gets "CN=gatehouse/) as string,
      expect.stringMatching(
        /^the bundle loses "CN=.*": its clients reject the present .* prod\/db-tls$/,
      ) as string,
    ],
  });
});

test('before Gatehouse is installed, the bundle is that of a new CA', () => {
  const row = onlyRow({ ...targets(configMap(ASKS, legacyBundle)), authority: read(undefined) });
  expect(row).toMatchObject({ state: 'Ready' });
  expect(row?.changes[0]).toBe('the bundle gets the CA that Gatehouse creates');
});

test('if the CA of Gatehouse may not be read, the change of a bundle is unknown', () => {
  const report = reportOf({
    ...targets(configMap(ASKS, legacyBundle)),
    ...{ authority: FORBIDDEN, caBundle: FORBIDDEN },
  });
  expect(report.items).toMatchObject([{ owner: 'service-ca', state: 'Unknown' }]);
  expect(report.unread).toHaveLength(2);
});

test('a bundle of Gatehouse is done', () => {
  const row = onlyRow(targets(configMap(ASKS, bundle, 'gatehouse-cabundle')));
  expect(row).toMatchObject({ owner: 'Gatehouse', state: 'Done', changes: [] });
});

test('an annotation that Gatehouse does not honour blocks', () => {
  const odd = { 'service.alpha.openshift.io/inject-vulnerable-legacy-cabundle': 'true' };
  expect(onlyRow(targets(configMap(odd, legacyBundle)))).toMatchObject({
    state: 'Blocked',
    changes: [expect.stringContaining('inject-vulnerable-legacy-cabundle is not honoured')],
  });
});

const hooks = (annotation: string, value: string) =>
  targets(
    {
      metadata: { name: 'hooks', annotations: { [`cert-manager.io/${annotation}`]: value } },
      webhooks: [{ name: 'a.b.c', clientConfig: { service: {}, caBundle: base64(legacyBundle) } }],
    },
    TARGET_KINDS.validating,
  );

test('a target of a Certificate gets the bundle of its Secret', () => {
  const issued = (owner: string) => ({
    ...hooks('inject-ca-from', 'prod/db'),
    sources: new Map([
      [
        'Certificate prod/db',
        read({
          metadata: { annotations: { 'cert-manager.io/certificate-name': owner } },
          data: { 'ca.crt': base64(legacyBundle) },
        }),
      ],
    ]),
  });
  expect(onlyRow(issued('db'), 'cert-manager')).toMatchObject({
    ...{ state: 'Ready', changes: ['the bundle stays; Gatehouse keeps it up to date'] },
  });
  expect(onlyRow(issued('other'), 'cert-manager')).toMatchObject({ state: 'Blocked' });
});

test('a target of the CA of the API server is ready, although only the leader knows that CA', () => {
  expect(onlyRow(hooks('inject-apiserver-ca', 'true'), 'cert-manager')).toMatchObject({
    ...{ state: 'Ready', changes: ['the bundle gets the CA that Gatehouse trusts for the API server'] },
  });
});

const certificate = (spec: object) => ({
  certificates: read([
    { metadata: { namespace: 'prod', name: 'db' }, spec: { secretName: 'db-tls', ...spec } },
  ]),
  services: read([service({})]),
});

test.each<[string, object, string, string]>([
  [
    'the names of a Service',
    { dnsNames: ['db.prod.svc', 'db.prod.svc.cluster.local'] },
    'Ready',
    'annotate it with gatehouse.dev/serving-cert-adopt=db, and Service db with gatehouse.dev/serving-cert-secret-name=db-tls, then',
  ],
  [
    'short names and a wildcard',
    { dnsNames: ['db', 'db.prod', 'db.prod.svc', '*.db.prod.svc.cluster.local'] },
    'Ready',
    '=db-tls and gatehouse.dev/serving-cert-short-names=true and gatehouse.dev/serving-cert-wildcard=true, then',
  ],
  [
    'names below its Service',
    { dnsNames: ['a.db.prod.svc', 'b.db.prod.svc'] },
    'Ready',
    'gatehouse.dev/serving-cert-dns-names=a.db.prod.svc,b.db.prod.svc',
  ],
  [
    'fewer names than Gatehouse issues',
    { dnsNames: ['db.prod.svc'] },
    'Ready',
    'additional DNS names: db.prod.svc.cluster.local',
  ],
  [
    'another cluster domain',
    { dnsNames: ['db', 'db.prod.svc', 'db.prod.svc.example.com'] },
    'Blocked',
    'has the names db.prod.svc.example.com with the default settings (--cluster-domain',
  ],
  ['a public name', { dnsNames: ['db.prod.svc', 'example.com'] }, 'Blocked', 'the names example.com'],
  ['a name of another Service', { dnsNames: ['xdb.prod.svc'] }, 'Blocked', 'the names xdb.prod.svc'],
  ['no name', {}, 'Blocked', 'it has no DNS names'],
  ['an address', { dnsNames: ['db.prod.svc'], ipAddresses: ['10.0.0.1'] }, 'Blocked', 'not DNS names'],
  [
    'the use of a client',
    { dnsNames: ['db.prod.svc'], usages: ['client auth'] },
    'Blocked',
    'client-cert-secret-name',
  ],
  [
    'another use',
    { dnsNames: ['db.prod.svc'], usages: ['code signing'] },
    'Blocked',
    'keep it in cert-manager',
  ],
  ['the right to sign', { dnsNames: ['db.prod.svc'], isCA: true }, 'Blocked', 'it is a CA'],
])('a Certificate with %s', (_what, spec, state, message) => {
  const row = onlyRow(certificate(spec), 'cert-manager');
  expect(row).toMatchObject({ kind: 'Certificate', state });
  expect(row?.changes.join()).toContain(message);
});

test.each<[string, Record<string, string>, readonly string[], string]>([
  ['', {}, ['Ready', 'Blocked'], 'it replaces Certificate a'],
  [
    ' that asks for the Secret of the second one',
    { 'gatehouse.dev/serving-cert-secret-name': 'b-tls' },
    ['Blocked', 'Ready'],
    'it already asks for b-tls',
  ],
])('one of two Certificates for one Service%s is blocked', (_which, annotations, states, why) => {
  const certificates = ['a', 'b'].map((name) => ({
    ...{ metadata: { namespace: 'prod', name } },
    spec: { secretName: `${name}-tls`, dnsNames: ['db.prod.svc'] },
  }));
  const { items } = reportOf(
    { certificates: read(certificates), services: read([service(annotations)]) },
    'cert-manager',
  );
  expect(items.map(({ state }) => state)).toEqual(states);
  expect(items.flatMap(({ changes }) => changes).join()).toContain(
    `Service db can fill only one Secret, and ${why}`,
  );
});

test('an issuer is blocked only if Certificates use it and Gatehouse cannot replace it', () => {
  const { certificates } = certificate({ dnsNames: [], issuerRef: { name: 'public' } });
  const issuer = (name: string, spec: NonNullable<Issuer['spec']>) => ({
    metadata: { namespace: 'prod', name },
    spec,
  });
  const issuers = read([
    issuer('public', { acme: {} }),
    issuer('spare', { acme: {} }),
    issuer('own', { ca: { secretName: 'root' } }),
  ]);
  const { items } = reportOf({ certificates, issuers }, 'cert-manager');
  expect(items.slice(1).map(({ name, state }) => [name, state])).toEqual([
    ['public', 'Blocked'],
    ['spare', 'Ready'],
    ['own', 'Ready'],
  ]);
});

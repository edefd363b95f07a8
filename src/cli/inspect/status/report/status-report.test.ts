import { expect, test } from 'vitest';

import { generationId, importGeneration, sealKey, signWith } from '../../../../pki/authority/generation.ts';
import { toSecretData } from '../../../../pki/authority/secret.ts';
import { activeGeneration, authorityOf } from '../../../../pki/authority/authority.ts';
import { commonName, keyIdOf, signCertificate } from '../../../../pki/x509/certificate.ts';
import { after, DAY, HOUR } from '../../../../pki/durations.ts';
import { base64, prepared, serverOf } from '../../../../../test/support/pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../../../../pki/x509/keys.ts';
import { CLIENT_CERT_SECRET_NAME, SERVING_CERT_SECRET_NAME } from '../../../../pki/annotations.ts';
import { TARGET_KINDS } from '../../../../pki/injection/target.ts';
import type { ClusterReadings, Pod } from '../../read-cluster/read-cluster.ts';
import {
  at,
  authority,
  bundle,
  FORBIDDEN,
  healthy,
  NOW,
  policy,
  PRIVATE_KEY,
  read,
  REPORT_CONTEXT,
  restoreWindow,
  serving,
  servingSecret,
  stranger,
  validating,
  webhookConfiguration,
} from '../../../../../test/support/cli/readings.ts';
import { servingCertCells } from '../cells.ts';
import { statusReport, type StatusReport } from './status-report.ts';

const reportOf = (change: Partial<ClusterReadings> = {}, now = NOW): StatusReport =>
  statusReport({ ...healthy, ...change }, { ...REPORT_CONTEXT, now });

const problems = (report: StatusReport) =>
  report.attention.map(({ object, message }) => `${object}: ${message}`);

test('a late record of trust needs attention, because certificates are shortened', () => {
  const [active] = authority.generations;
  if (active === undefined) throw new Error('the authority is empty');
  const late = { ...authority, generations: [{ ...active, trustedUntil: after(NOW, 80 * DAY) }] };
  expect(problems(reportOf({ authority: read({ data: toSecretData(late) }) }))).toEqual([
    expect.stringContaining(`certificates have been shortened since ${at(-10 * DAY)}`),
  ]);
});

test('the rotation time of an imported CA is unknown: its owner replaces it', async () => {
  const { publicKey, privateKey } = await generateKeyPair('ECDSA-P256');
  const issuer = {
    name: commonName('Acme Root'),
    keyId: keyIdOf(publicKey),
    publicKey,
    sign: signWith(privateKey),
  };
  const validity = { notBefore: NOW, notAfter: after(NOW, 400 * DAY) };
  const template = { ...validity, publicKey, subject: issuer, serial: randomSerial() };
  const certificate = await signCertificate({ ...template, purpose: { kind: 'authority' } }, issuer);
  const made = await importGeneration(
    { id: generationId(publicKey), certificate, key: sealKey(generationId(publicKey), privateKey) },
    { serial: randomSerial(), now: NOW, previous: undefined },
  );
  const stored = read({ data: toSecretData(authorityOf(made, NOW)) });

  const rows = (report: StatusReport) => report.authority.generations.map(({ rotationAt }) => rotationAt);
  expect(rows(reportOf({ authority: stored }))).toEqual([undefined]);
  expect(rows(reportOf())).toEqual([expect.any(String)]);
  expect(problems(reportOf({ authority: stored }, after(NOW, 350 * DAY)))).toContainEqual(
    expect.stringMatching(
      /and no next generation is prepared: the CA is imported, so store a new CA in its Secret$/,
    ),
  );
});

test('a Service that asks for a certificate and does not have it needs attention', () => {
  const asking = (name: string, annotations: Record<string, string>) => ({
    metadata: { namespace: 'prod', name, annotations },
  });
  const services = read([
    asking('db', { [SERVING_CERT_SECRET_NAME]: 'db-tls' }),
    asking('web', { [SERVING_CERT_SECRET_NAME]: 'db-tls' }), // db has it
    asking('batch', { [CLIENT_CERT_SECRET_NAME]: 'batch-client' }),
    asking('plain', {}),
  ]);
  const report = reportOf({ services });
  expect(problems(report)).toEqual([
    'Service prod/batch: it lacks its certificate in Secret batch-client',
    'Service prod/web: it lacks its certificate in Secret db-tls',
  ]);
  expect(report.attention[1]?.command).toBe('kubectl -n prod describe service web');
  expect(report.servingCerts.items.map(({ service, state }) => [service, state])).toEqual([
    ['batch', 'Missing'],
    ['web', 'Missing'],
    ['db', 'Valid'],
  ]);
});

test('handlers are listed with what their webhook entries do', () => {
  const entries = (...names: readonly string[]) =>
    webhookConfiguration('gatehouse', {
      webhooks: names.map((name) => ({ name, clientConfig: { service: {}, caBundle: base64(bundle) } })),
    });
  const validate = ['handler-team', 'handler-quota', 'fail-5s-3fa9c2'].map(
    (one) => `${one}.validate.gatehouse.dev`,
  );
  const targets = [
    { kind: TARGET_KINDS.mutating, objects: read([entries('handler-team.mutate.gatehouse.dev')]) },
    { kind: TARGET_KINDS.validating, objects: read([entries(...validate)]) },
  ];
  expect(reportOf({ targets }).handlers).toEqual([
    { name: 'quota', mutates: false, validates: true },
    { name: 'team', mutates: true, validates: true },
  ]);
});

test('a ClusterRole in a message is printed by a command, because YAML in a table cannot be copied', () => {
  const message =
    'Gatehouse lacks permission to get, list and watch pods. Add this ClusterRole:\nkind: ClusterRole\nrules: []';
  const [attention] = reportOf({ policies: read([policy({ status: 'False', message })]) }).attention;
  expect(attention).toMatchObject({
    message: 'Gatehouse lacks permission to get, list and watch pods. To allow it, run',
    command: 'kubectl get admissionpolicy servers -o yaml | gatehouse manifests -p - | kubectl apply -f -',
  });
});

test('no private key is in the report, in no encoding of a Secret', () => {
  const isIn = (text: string) => PRIVATE_KEY.some((form) => text.includes(form));
  expect(isIn(JSON.stringify(toSecretData(authority)))).toBe(true);
  expect(isIn(JSON.stringify(reportOf()))).toBe(false);
});

const brokenKey = { ...toSecretData(authority), 'generations.json': Buffer.from('[]').toString('base64') };
const podOf = (component: string, name: string): Pod => ({
  metadata: { name, labels: { 'app.kubernetes.io/component': component } },
  status: { conditions: [{ type: 'Ready', status: 'True' }] },
});
const weak = { name: 'one.example.com', clientConfig: { service: {}, caBundle: 'AAAA' } };

const hook = (change: Parameters<typeof webhookConfiguration>[1], name = 'third-party') =>
  validating(webhookConfiguration(name, change));
const wrongName = {
  name: 'third-party',
  annotations: { 'gatehouse.dev/inject-cabundle': 'two.example.com' },
};
const foreignKey = { ...serving, privateKey: (await serverOf(authority, NOW)).privateKey };
const lapsed = { holderIdentity: 'a', renewTime: at(-60_000), leaseDurationSeconds: 15 };

test.each<readonly [expected: string, change: Partial<ClusterReadings>]>([
  ['Lease gatehouse-system/gatehouse: no replica leads', { lease: read(undefined) }],
  ['a has not renewed it since', { lease: read({ spec: lapsed }) }],
  [
    'Deployment gatehouse-system/gatehouse-controllers: no replica runs, so no certificate is renewed',
    { pods: read([podOf('webhook', 'gatehouse-webhook-a')]) },
  ],
  [
    'Deployment gatehouse-system/gatehouse-webhook: no replica runs, so governed requests are refused',
    { pods: read([podOf('controllers', 'gatehouse-controllers-a')]) },
  ],
  ['Pod gatehouse-b: it is not ready', { pods: read([{ metadata: { name: 'gatehouse-b' } }]) }],
  ['Secret gatehouse-system/gatehouse-authority: it does not exist', { authority: read(undefined) }],
  ['is broken: generations.json', { authority: read({ data: brokenKey }) }],
  [
    'Secret prod/db-tls: no generation of the authority has signed it',
    { servingSecrets: read([servingSecret('db-tls', await serverOf(stranger, NOW))]) },
  ],
  ['Secret prod/db-tls: it cannot be used', { servingSecrets: read([servingSecret('db-tls', foreignKey)]) }],
  [
    'ValidatingWebhookConfiguration third-party: stale CA bundle in one.example.com',
    hook({ webhooks: [weak] }),
  ],
  [
    'ValidatingWebhookConfiguration gatehouse: stale CA bundle',
    hook({ metadata: { name: 'gatehouse' }, webhooks: [weak] }, 'gatehouse'),
  ],
  ['there is no webhook named two.example.com', hook({ metadata: wrongName })],
  [
    'AdmissionPolicy servers: spec.validate: no',
    { policies: read([policy({ status: 'False', message: 'spec.validate: no' })]) },
  ],
  [
    'AdmissionPolicy servers: the leader has not processed its current generation',
    { policies: read([policy({ observedGeneration: 2 })]) },
  ],
  [
    'RestoreWindow drill: the restore has left 2 violations',
    { windows: read([restoreWindow('CompletedWithViolations', at(-HOUR))]) },
  ],
  ['RestoreWindow drill: it has expired', { windows: read([restoreWindow('Open', at(-HOUR))]) }],
])('it needs attention: %s', (expected, change) => {
  const report = reportOf(change);
  expect(problems(report)).toEqual([expect.stringContaining(expected)]);
  expect(report.healthy).toBe(false);
});

test('a certificate is due for renewal for an hour, then overdue, then expired; the first to expire comes first', async () => {
  // Valid for one day, from half an hour before it was issued.
  const later = servingSecret('later', await serverOf(authority, after(NOW, HOUR)));
  const servingSecrets = read([later, servingSecret('db-tls', serving)]);
  const [{ renewAt = '' } = {}, second] = reportOf({ servingSecrets }).servingCerts.items;
  expect(second?.name).toBe('later');
  const stateAt = (now: Date) => {
    const lease = read({ spec: { holderIdentity: 'a', renewTime: now.toISOString() } });
    const report = reportOf({ lease, windows: read([]) }, now);
    return [report.servingCerts.items[0]?.state, report.attention.length];
  };
  const due = new Date(renewAt);
  expect(stateAt(after(due, -1_000))).toEqual(['Valid', 0]);
  expect(stateAt(due)).toEqual(['RenewalDue', 0]);
  expect(stateAt(after(due, HOUR))).toEqual(['Overdue', 1]);
  expect(stateAt(after(NOW, 2 * DAY))).toEqual(['Expired', 1]);
});

test('the certificate of a client is listed with its purpose', () => {
  const { summary, ...secret } = servingSecret('db-client', serving);
  if (summary?.kind !== 'usable') throw new Error('the fixture is unusable');
  const client = { ...secret, summary: { ...summary, purpose: 'client' } as const };
  const { items } = reportOf({ servingSecrets: read([client]) }).servingCerts;
  expect(items).toMatchObject([{ service: 'db', purpose: 'client', state: 'Valid' }]);
  expect(items.map((row) => servingCertCells(row, NOW)[1])).toEqual(['db (client)']);
});

test('the own Secret, which no annotation asks for, is listed also as an earlier version left it', () => {
  const { metadata, ...secret } = servingSecret('gatehouse-serving', serving);
  const earlier = { ...secret, metadata: { ...metadata, annotations: {} } };
  expect(reportOf({ servingSecrets: read([earlier]) }).servingCerts.items).toMatchObject([
    { name: 'gatehouse-serving', state: 'Valid' },
  ]);
  const copy = { ...earlier, metadata: { ...earlier.metadata, name: 'copy' } };
  expect(reportOf({ servingSecrets: read([copy]) }).servingCerts.items).toEqual([]);
});

test('the renewal is at the point that the Secret names', () => {
  const secret = servingSecret('db-tls', serving);
  const annotations = { ...secret.metadata?.annotations, 'gatehouse.dev/serving-cert-renew-after': '90%' };
  const moved = { ...secret, metadata: { ...secret.metadata, annotations } };
  const [usual, late] = [secret, moved].map((one) => {
    const [row] = reportOf({ servingSecrets: read([one]) }).servingCerts.items;
    return new Date(row?.renewAt ?? '').getTime();
  });
  expect((late ?? 0) - (usual ?? 0)).toBe(0.24 * DAY);
});

test('an authority needs attention at three quarters of its lifetime, unless the next generation is prepared', async () => {
  const lateAt = after(NOW, 0.76 * 730 * DAY);
  const lateWith = (data: Readonly<Record<string, string>>) =>
    problems(reportOf({ ...atRest(lateAt), authority: read({ data }) }, lateAt));
  expect(lateWith(toSecretData(authority))).toEqual([
    expect.stringContaining('no next generation is prepared'),
  ]);
  expect(lateWith(toSecretData(await prepared(authority, lateAt)))).toEqual([]);
});

/** Readings in which nothing depends on the authority. */
const atRest = (now: Date): Partial<ClusterReadings> => ({
  lease: read({ spec: { holderIdentity: 'a', renewTime: now.toISOString() } }),
  servingSecrets: read([]),
  targets: [],
  windows: read([]),
});

test('without permission to read the Secret of the authority, the report uses the published bundle', () => {
  const report = reportOf({ authority: FORBIDDEN });
  const { id } = activeGeneration(authority);
  expect(report.authority).toMatchObject({
    source: 'ConfigMap',
    unread: [{ what: 'Secret gatehouse-system/gatehouse-authority', reason: 'Forbidden' }],
    generations: [{ id, state: 'trusted', expired: false }],
  });
  expect(report.servingCerts.items[0]?.signedBy).toBe(id);
  expect(report.injectionTargets.items[0]?.state).toBe('Current');
  expect(report.healthy).toBe(true);
});

test('an unreadable part is named, and is neither healthy nor a problem', () => {
  const policies = { kind: 'unread', reason: 'NotInstalled', message: 'no such kind' } as const;
  const unread = { authority: FORBIDDEN, caBundle: FORBIDDEN, servingSecrets: FORBIDDEN, policies };
  const report = reportOf(unread);
  expect(report.attention).toEqual([]);
  expect(report.healthy).toBe(false);
  expect(report.servingCerts.unread).toMatchObject([{ reason: 'Forbidden' }]);
  expect(report.admissionPolicies.unread).toMatchObject([{ reason: 'NotInstalled' }]);
  expect(report.injectionTargets.items).toMatchObject([{ name: 'third-party', state: 'Unknown' }]);
});

test('a bundle from another source is compared with it, if it is readable', () => {
  const annotations = { 'gatehouse.dev/inject-cabundle-from': 'prod/their-ca' };
  const copied = { metadata: { namespace: 'shop', name: 'trust', annotations }, data: { 'ca.crt': bundle } };
  const targets = [{ kind: TARGET_KINDS.configMap, objects: read([copied]) }];
  const sourceOf = (source: ReturnType<ClusterReadings['sources']['get']> & {}) => {
    const sources = new Map([['Secret prod/their-ca', source]]);
    const { items, unread } = reportOf({ targets, sources }).injectionTargets;
    return [items[0]?.source, items[0]?.state, unread.length];
  };
  const consents = {
    metadata: { annotations: { 'gatehouse.dev/allow-direct-injection': 'true' } },
    data: { 'ca.crt': Buffer.from(bundle).toString('base64') },
  };
  expect(sourceOf(read(consents))).toEqual(['Secret prod/their-ca', 'Current', 0]);
  expect(sourceOf(read(undefined))).toEqual(['Secret prod/their-ca', 'Invalid', 0]);
  expect(sourceOf(FORBIDDEN)).toEqual(['Secret prod/their-ca', 'Unknown', 1]);
});

test('the CA of the API server is known to the leader only, which is no problem', () => {
  const asking = {
    metadata: { name: 'hooks', annotations: { 'cert-manager.io/inject-apiserver-ca': 'true' } },
    webhooks: [{ name: 'a.b.c', clientConfig: { service: {}, caBundle: '' } }],
  };
  const targets = [{ kind: TARGET_KINDS.validating, objects: read([asking]) }];
  const scope = { ...REPORT_CONTEXT, now: NOW };
  const compat = ['cert-manager'] as const;
  const { injectionTargets, attention } = statusReport({ ...healthy, targets, compat }, scope);
  expect(injectionTargets.items).toMatchObject([{ source: 'the API server', state: 'Unknown' }]);
  expect(attention).toEqual([]);
});

const stale = {
  namespace: 'prod',
  service: 'db',
  secret: 'db-tls',
  pods: ['db-0', 'db-1'],
  count: 5,
  since: at(-HOUR),
  notAfter: at(DAY),
};
const served = (checkedAt: string, current = 3) => {
  const endpoints = { current, stale: 0, foreign: 0, unreachable: 0 };
  const report = { checkedAt, stale: current === 0 ? [] : [stale], endpoints };
  return read({ data: { 'report.json': JSON.stringify(report) } });
};

test('servers that present an earlier certificate need attention', () => {
  const report = reportOf({ servedCerts: served(at(-HOUR / 4)) });
  expect(report.servedCerts).toMatchObject({ endpoints: { current: 3 }, items: [{ service: 'db' }] });
  expect(problems(report)).toEqual([
    `Service prod/db: pods db-0, db-1 and 3 more are still presenting an earlier certificate than Secret db-tls contains; it ends at ${at(DAY)}: restart the pods before`,
  ]);
});

test.each([
  ['that no leader maintains', served(at(-HOUR))],
  ['without endpoints', served(at(0), 0)],
  ['that is no report', read({ data: { 'report.json': 'x' } })],
])('a report %s is left out', (_what, servedCerts) => {
  const report = reportOf({ servedCerts });
  expect(report.healthy).toBe(true);
  expect(report.servedCerts).toEqual({ unread: [], items: [] });
});

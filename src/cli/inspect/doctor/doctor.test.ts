import { describe, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type {
  Deployment,
  DeploymentName,
  InstallationReadings,
  Managed,
  Deployments,
} from '../read-cluster/read-installation.ts';
import { read } from '../read-cluster/reading.ts';
import { INJECT_CABUNDLE, SERVING_CERT_SECRET_NAME } from '../../../pki/annotations.ts';
import { TARGET_KINDS } from '../../../pki/injection/target.ts';
import { formatFindings, runChecks } from './doctor.ts';
import { withDevSession } from '../../../admission/webhooks/dev-entries.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import {
  account,
  ago,
  bundle,
  configuration,
  definitions,
  deploymentWith,
  foreignBundle,
  healthy,
  NOW,
} from '../../../../test/support/cli/healthy.ts';

const bad = (change: Partial<InstallationReadings>) =>
  runChecks({ ...healthy, ...change }).filter(({ severity }) => severity !== 'ok');

const withoutOne = new Map([...definitions].slice(1));
const [[firstName = '', first = {}] = []] = definitions;
const withVersion = (name: string, properties: object) => {
  const versions = [{ name, served: true, schema: { openAPIV3Schema: { properties } } }];
  return new Map(definitions).set(firstName, { ...first, spec: { versions } });
};
const older = withVersion('v1alpha1', { apiVersion: {}, kind: {}, metadata: {}, spec: {} });
const notServed = withVersion('v1', {});

const policy = (conditions: AdmissionPolicy['status'], generation = 1): AdmissionPolicy => ({
  metadata: { name: 'servers', generation },
  spec: { match: { apiGroups: ['x.dev'], resources: ['servers'] } },
  ...(conditions === undefined ? {} : { status: conditions }),
});
const ready = (status: 'True' | 'False', message: string): AdmissionPolicy['status'] => ({
  conditions: [
    { type: 'Ready', status, reason: 'Because', message, observedGeneration: 1, lastTransitionTime: ago(1) },
  ],
});
const window = (openedAt: string, expiresAt: string): RestoreWindow => ({
  metadata: { name: 'drill' },
  spec: { principals: [{ user: 'velero' }], expiresAt },
  status: { phase: 'Open', openedAt },
});
const annotations = { 'gatehouse.dev/inject-cabundle': 'true' };
const fieldsV1 = { 'f:webhooks': { 'k:{"name":"x"}': { 'f:clientConfig': { 'f:caBundle': {} } } } };
const written = (manager: string): Managed => ({
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: 'hook', annotations, managedFields: [{ manager, fieldsV1 }] },
});
/** The two Deployments, with so many ready replicas. */
const running = ({ webhook = 2, controllers = 2 }): Deployments =>
  new Map([
    ['gatehouse-webhook', deploymentWith(['webhook', '--client-ca=/ca.crt'], [], webhook)],
    ['gatehouse-controllers', deploymentWith(['controllers'], [], controllers)],
  ]);
const withDeployment = (...changed: Parameters<Map<DeploymentName, Deployment>['set']>) => ({
  deployments: read(new Map(running({})).set(...changed)),
});
const withAccount = (...changed: Parameters<typeof account>) => ({ accounts: [account(...changed)] });
/** A pod whose container has this state. */
const withPod = (container: object): Pick<InstallationReadings, 'pods'> => {
  const metadata = { name: 'gatehouse-webhook-6c9-x', namespace: 'gatehouse-system' };
  return { pods: read([{ metadata, status: { containerStatuses: [container] } }]) };
};

test.each([
  ['an argument', deploymentWith(['serve', '--client-ca', '/ca.crt']), []],
  ['the environment', deploymentWith(['serve'], [{ name: 'GATEHOUSE_CLIENT_CA' }]), []],
  ['another flag only', deploymentWith(['serve', '--client-ca-for=all']), ['warning']],
  ['nothing', deploymentWith(['serve']), ['warning']],
  ['no Deployment, like in the sandbox', undefined, []],
])('clients of the webhooks are verified by %s', (_what, deployment, severities) => {
  const deployments = new Map(deployment === undefined ? [] : [['gatehouse', deployment] as const]);
  const found = bad({ deployments: read(deployments) });
  expect(found.map(({ severity }) => severity)).toEqual(severities);
});

test('a healthy cluster is without findings, even with the overlay single', () => {
  expect(bad({})).toEqual([]);
  const single = new Map([['gatehouse', deploymentWith(['serve', '--client-ca=/ca.crt'])] as const]);
  expect(bad({ deployments: read(single), accounts: [account('gatehouse')] })).toEqual([]);
});

test('a permission of the doctor that is missing for two accounts is reported once', () => {
  const permission = { verb: 'create', resource: 'subjectaccessreviews.authorization.k8s.io' };
  const access = { kind: 'unread', reason: 'Forbidden', message: 'no', permission } as const;
  const found = bad({ accounts: ['a', 'b'].map((name) => account(name, { access })) });
  expect(found.map(({ check }) => check)).toEqual(['access']);
});

const unreadRacks = { group: 'x.dev', resource: 'racks', policy: 'servers', needed: false };
const auditedOnly = withAccount('gatehouse-webhook', {
  governed: read({ checked: 1, missing: [unreadRacks] }),
});
const noSecrets = {
  access: read({ checked: 1, missing: [{ verb: 'get', group: '', resource: 'secrets' }] }),
};
const rollout = (status: Deployment['status']) =>
  withDeployment('gatehouse-webhook', deploymentWith(['webhook', '--client-ca=/ca.crt'], [], 2, status));
const stuck = {
  type: 'Progressing',
  status: 'False',
  reason: 'ProgressDeadlineExceeded',
  message: 'ReplicaSet "gatehouse-webhook-6c9" has timed out progressing.',
} as const;
const twiceRequested = {
  'gatehouse.dev/serving-cert-secret-name': 'db',
  'service.beta.openshift.io/serving-cert-secret-name': 'db',
};
const twice = { kind: 'Service', metadata: { name: 'db', namespace: 'shop', annotations: twiceRequested } };
const leaseOf = (spec: object) => ({ lease: read({ spec }) });
const waiting = (reason: string, message: string) => ({ waiting: { reason, message } });
const lastWords = "error: unknown option '--nonsense'\nSee gatehouse controllers --help\n";
const unstarted = withPod({
  state: waiting('CrashLoopBackOff', 'back-off 40s restarting failed container'),
  lastState: { terminated: { exitCode: 2, reason: 'Error', message: lastWords } },
});
const shop = { namespace: 'shop', workloads: ['Deployment shop/api'] };

test.each<readonly [found: string, seen: string, change: Partial<InstallationReadings>]>([
  [
    'restarts: warning',
    'lacks permission to restart Deployment shop/api',
    { restarts: read({ checked: 2, missing: [shop] }) },
  ],
  [
    'kubernetes: problem',
    'runs Kubernetes v1.29.15, but Gatehouse supports 1.30 to 1.37',
    { version: { major: 1, minor: 29, gitVersion: 'v1.29.15' } },
  ],
  ['kubernetes: unknown', 'did not return its version', { version: { major: 0, minor: 0, gitVersion: '' } }],
  ['definitions: problem', `${firstName} does not exist`, { definitions: read(withoutOne) }],
  ['definitions: problem', 'served as v1, not as v1alpha1', { definitions: read(notServed) }],
  ['definitions: warning', 'lacks spec.match, spec.failurePolicy', { definitions: read(older) }],
  ['access: problem', 'its bindings are missing', withAccount('gatehouse', noSecrets)],
  ['governed-kinds: warning', 'the policy servers cannot audit existing racks.x.dev', auditedOnly],
  [
    'deployments: problem',
    'gatehouse-controllers: 0 of 2 replicas are ready, so no certificate is renewed',
    { deployments: read(running({ controllers: 0 })) },
  ],
  [
    'deployments: warning',
    'gatehouse-webhook: 1 of 2 replicas are ready',
    { deployments: read(running({ webhook: 1 })) },
  ],
  [
    'deployments: problem',
    'gatehouse-webhook: the new version does not become ready: ReplicaSet "gatehouse-webhook-6c9" has timed out',
    rollout({ updatedReplicas: 1, conditions: [stuck] }),
  ],
  [
    'deployments: warning',
    'gatehouse-webhook: the new version is not rolled out: 1 of 2 replicas have it',
    rollout({ updatedReplicas: 1 }),
  ],
  [
    'deployments: problem',
    'gatehouse-controllers is scaled to 0, so no certificate is renewed',
    withDeployment('gatehouse-controllers', deploymentWith(['controllers'], [], 0, { replicas: 0 })),
  ],
  [
    'deployments: problem',
    'Pod gatehouse-system/gatehouse-webhook-6c9-x does not start: ImagePullBackOff: Back-off pulling image "g:1"',
    withPod({ state: waiting('ImagePullBackOff', 'Back-off pulling image "g:1"') }),
  ],
  [
    'deployments: problem',
    "CrashLoopBackOff: it ended with exit code 2 (Error): error: unknown option '--nonsense'",
    unstarted,
  ],
  [
    'deployments: problem',
    'Deployment gatehouse-system/gatehouse-controllers does not exist: no certificate is renewed',
    { deployments: read(new Map([...running({})].slice(0, 1))) },
  ],
  [
    'deployments: warning',
    'gatehouse runs both processes, and their separate Deployments exist',
    withDeployment('gatehouse', deploymentWith(['serve', '--client-ca=/ca.crt'])),
  ],
  ['leader: problem', 'gatehouse does not exist', { lease: read(undefined) }],
  [
    'leader: problem',
    'last renewed it 120 s ago',
    leaseOf({ holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: ago(2) }),
  ],
  [
    'clocks: warning',
    '120 s ahead of the API server',
    leaseOf({ holderIdentity: 'one', renewTime: ago(-2) }),
  ],
  ['clocks: warning', '61 s behind', { skewMs: -61_000 }],
  ['webhook-configurations: problem', 'nothing is enforced', { validating: read(undefined) }],
  [
    'webhook-configurations: problem',
    'lacks the entries for the kinds of Gatehouse',
    { validating: read(configuration(bundle, { webhooks: [] })) },
  ],
  [
    'removal: warning',
    'ValidatingWebhookConfiguration "gatehouse" would remain after Gatehouse is removed',
    { validating: read(configuration(bundle, { metadata: { name: 'gatehouse' } })) },
  ],
  ['endpoints: problem', 'Service gatehouse-system/gatehouse does not exist', { service: read(undefined) }],
  ['webhook-reach: problem', 'did not call', { probe: read({ kind: 'not-called' }) }],
  ['ca-bundle: problem', 'contains a stale bundle', { mutating: read(configuration(foreignBundle)) }],
  ['ca-bundle: problem', 'contains a stale bundle', { mutating: read(configuration('')) }],
  [
    'ca-bundle: warning',
    'contains a different bundle than the ConfigMap, but it still verifies the certificate',
    { mutating: read(configuration(`${bundle}${foreignBundle}`)) },
  ],
  ['ca-bundle: problem', 'lacks a CA bundle', { caBundle: read(undefined) }],
  ['ca-bundle: problem', 'contains no certificate', { chain: read(undefined) }],
  [
    'rivals: warning',
    'Gatehouse and, with service.beta.openshift.io/serving-cert-secret-name, from service-ca',
    { managed: [read([twice])] },
  ],
  [
    'policies: problem',
    'is not Ready (Because): no such kind',
    { policies: read([policy(ready('False', 'no such kind\n(manifest)'))]) },
  ],
  [
    'policies: warning',
    'has not processed the current generation',
    { policies: read([policy(ready('True', ''), 2)]) },
  ],
  ['restore-windows: warning', 'has been open for 10 h', { windows: read([window(ago(600), ago(-60))]) }],
  ['restore-windows: problem', 'has not closed it', { windows: read([window(ago(60), ago(10))]) }],
])('%s: %s', (found, text, change) => {
  const findings = bad(change);
  expect(findings.map(({ check, severity }) => `${check}: ${severity}`)).toEqual([found]);
  expect(findings[0]?.seen).toContain(text);
  expect(findings[0]?.next).toMatch(/\w/);
});

test('no finding for the own field manager, a ready policy and a closed window', () => {
  const closed = {
    ...window(ago(6_000), ago(600)),
    status: { phase: 'Completed', closedAt: ago(600) },
  } as const;
  expect(
    bad({
      managed: [read([written('gatehouse-cabundle'), { ...written('helm'), metadata: { name: 'others' } }])],
      policies: read([policy(ready('True', ''))]),
      windows: read([closed, window(ago(10), ago(-50))]),
    }),
  ).toEqual([]);
});

const ofDeveloper = {
  name: 'own-opening.mutate.gatehouse.dev',
  clientConfig: { url: 'https://eva:8443/mutate/own-opening', caBundle: 'RVZB' },
};

describe('a session of gatehouse serve --dev-url', () => {
  const untilIn = (seconds: number) => {
    const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
    const expiresAt = (ms: number) => new Date(NOW.getTime() + seconds * 1_000 + ms);
    const live = (ms: number) =>
      read({
        metadata: withDevSession({ name: 'gatehouse' }, { ...session, expiresAt: expiresAt(ms) }),
        webhooks: [ofDeveloper],
      });
    return bad({ mutating: live(-33), validating: live(0) });
  };

  test.each([
    [
      'is valid',
      40,
      'warning',
      'eva@laptop serves the webhook entries of this cluster at https://eva:8443 until',
    ],
    ['has just ended', -2, 'warning', 'still point to the session of eva@laptop'],
    ['has not been restored', -60, 'problem', 'still point to the session of eva@laptop'],
    ['claims more time than a session has', 86_400, 'problem', 'still point to the session of eva@laptop'],
  ])('that %s is one finding, and its own CA is not stale', (_what, seconds, severity, seen) => {
    expect(untilIn(seconds)).toMatchObject([
      { check: 'dev-session', severity, seen: expect.stringContaining(seen) as string },
    ]);
  });
});

test('entries that point to a URL without a session contain a stale bundle', () => {
  const live = read(configuration(bundle, { webhooks: [ofDeveloper] }));
  expect(bad({ mutating: live }).map(({ check, severity }) => [check, severity])).toEqual([
    ['ca-bundle', 'problem'],
  ]);
});

describe('while no replica responds', () => {
  test('the entries that reject requests are reported', () => {
    const findings = bad({
      slices: read([{ endpoints: [{ addresses: [], conditions: { ready: false } }] }]),
    });
    expect(findings.map(({ check }) => check)).toEqual(['endpoints', 'fail-closed']);
    expect(findings[1]?.seen).toContain('own-opening.mutate.gatehouse.dev');
  });

  // Each as kube-apiserver 1.37 says it, with the URL, which has the word timeout.
  test.each([
    ['dial tcp 10.96.214.212:443: connect: connection refused', 'see the check endpoints'],
    ['no endpoints available for service "gatehouse"', 'see the check endpoints'],
    ['EOF', 'see the check endpoints'],
    ['tls: failed to verify certificate: x509: signed by unknown authority', 'see the check ca-bundle'],
    ['context deadline exceeded', '--allow tcp:8443'],
    [
      'net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)',
      '--allow tcp:8443',
    ],
    ['dial tcp 10.96.214.212:443: i/o timeout', '--allow tcp:8443'],
    ['service "gatehouse" not found', 'kubectl apply -k deploy'],
  ])('the advice for "%s" is about its cause', (cause, advice) => {
    const url = 'https://gatehouse.gatehouse-system.svc:443/mutate/own?timeout=5s';
    const message = `failed calling webhook "own-opening.mutate.gatehouse.dev": failed to call webhook: Post "${url}": ${cause}`;
    const slices = read([]);
    const findings = bad({ slices, probe: read({ kind: 'unreachable', message }) });
    expect(findings.find(({ check }) => check === 'webhook-reach')).toMatchObject({
      severity: 'problem',
      seen: message,
      next: expect.stringContaining(advice) as string,
    });
  });
});

test('expiry is judged by the clock of the API server', () => {
  const later = new Date(NOW.getTime() + 3 * 86_400_000);
  const lease = read({ spec: { holderIdentity: 'one', renewTime: later.toISOString() } });
  expect(bad({ now: later, lease }).map(({ seen: text }) => text)).toEqual([
    expect.stringContaining('does not verify the certificate') as string,
  ]);
});

test('a Service without its certificate, and a target without its bundle, are problems', () => {
  const service = { namespace: 'shop', name: 'api', annotations: { [SERVING_CERT_SECRET_NAME]: 'api-tls' } };
  const webhooks = [{ name: 'one.example.com', clientConfig: { service: {} } }];
  const target = { metadata: { name: 'api', annotations: { [INJECT_CABUNDLE]: 'true' } }, webhooks };
  const asking = {
    services: read([{ metadata: service }]),
    targets: [{ kind: TARGET_KINDS.validating, objects: read([target]) }],
  };
  expect(bad(asking).map(({ check, seen, next }) => [check, seen, next])).toEqual([
    [
      'serving-certs',
      'Service shop/api: it lacks its certificate in Secret api-tls',
      'kubectl -n shop describe service api',
    ],
    [
      'injection-targets',
      'ValidatingWebhookConfiguration api: stale CA bundle in one.example.com',
      'gatehouse status; see its events and the check leader',
    ],
  ]);
});

test('a policy that matched no existing object is a warning, with the time of the audit', () => {
  const checked = { total: 0, checked: 0, checkedAt: ago(2) };
  const found = (is: 'True' | 'False', violations: object) =>
    bad({ policies: read([policy({ ...ready(is, ''), violations } as AdmissionPolicy['status'])]) });
  expect(found('True', checked)).toMatchObject([
    {
      check: 'policies',
      severity: 'warning',
      seen: 'AdmissionPolicy servers matched no existing object at its last audit, 2m ago',
    },
  ]);
  // The check governed-kinds reports the permission.
  expect(found('True', { ...checked, message: 'could not check pods: 403 Forbidden' })).toEqual([]);
  expect(found('False', checked).map(({ severity }) => severity)).toEqual(['problem']);
});

test('a part without read permission is unknown, and the other parts are checked', () => {
  const permission = { verb: 'get', resource: 'secrets', namespace: 'gatehouse-system' };
  const findings = bad({
    chain: { kind: 'unread', reason: 'Forbidden', message: '', permission },
    mutating: read(configuration(foreignBundle)),
  });
  expect(findings).toEqual([
    {
      check: 'ca-bundle',
      severity: 'unknown',
      seen: 'this user lacks permission to get secrets in the namespace gatehouse-system',
      next: expect.stringContaining('kubectl auth can-i get secrets -n gatehouse-system') as string,
    },
    expect.objectContaining({ check: 'ca-bundle', severity: 'problem' }) as object,
  ]);
});

test('JSON has the same findings as the table, with the number of each severity', () => {
  const findings = bad({ skewMs: undefined });
  expect(JSON.parse(formatFindings(findings, 'json', true))).toEqual({
    summary: { ok: 0, warning: 0, problem: 0, unknown: 1 },
    findings,
  });
  expect(formatFindings(findings, 'table', false)).toContain('Problems: 0. Warnings: 0. Unknown: 1.');
  expect(formatFindings(findings, 'table', true)).toContain('\u001b[90munknown');
  const forged = findings.map((one) => ({ ...one, seen: 'a\nleader   ok   forged' }));
  expect(formatFindings(forged, 'table', false)).toContain('a leader   ok   forged');
});

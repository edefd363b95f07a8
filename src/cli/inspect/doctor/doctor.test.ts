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
import { exitCodeOf, formatFindings, runChecks } from './doctor.ts';
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
const older = new Map(definitions).set(firstName, {
  ...first,
  spec: {
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        schema: { openAPIV3Schema: { properties: { apiVersion: {}, kind: {}, metadata: {}, spec: {} } } },
      },
    ],
  },
});
const notServed = new Map(definitions).set(firstName, {
  ...first,
  spec: { versions: [{ name: 'v1', served: true }] },
});

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
const asking: Managed['metadata'] = {
  name: 'hook',
  annotations: { 'gatehouse.dev/inject-cabundle': 'true' },
};
const written = (manager: string): Managed => ({
  kind: 'ValidatingWebhookConfiguration',
  metadata: {
    ...asking,
    managedFields: [
      {
        manager,
        fieldsV1: { 'f:webhooks': { 'k:{"name":"x"}': { 'f:clientConfig': { 'f:caBundle': {} } } } },
      },
    ],
  },
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
const withPod = (container: object): Pick<InstallationReadings, 'pods'> => ({
  pods: read([
    {
      metadata: { name: 'gatehouse-webhook-6c9-x', namespace: 'gatehouse-system' },
      status: { containerStatuses: [container] },
    },
  ]),
});
const TIMED_OUT =
  'failed calling webhook "own-opening.mutate.gatehouse.dev": failed to call webhook: context deadline exceeded';

test.each([
  ['an argument', deploymentWith(['serve', '--client-ca', '/ca.crt']), []],
  ['the environment', deploymentWith(['serve'], [{ name: 'GATEHOUSE_CLIENT_CA' }]), []],
  ['another flag only', deploymentWith(['serve', '--client-ca-for=all']), ['warning']],
  ['nothing', deploymentWith(['serve']), ['warning']],
  ['no Deployment, as in the sandbox', undefined, []],
])('clients of the webhooks are verified by %s', (_what, deployment, severities) => {
  const deployments = new Map(deployment === undefined ? [] : [['gatehouse', deployment] as const]);
  const found = bad({ deployments: read(deployments) });
  expect(found.map(({ severity }) => severity)).toEqual(severities);
});

test('a healthy cluster has no findings', () => {
  expect(bad({})).toEqual([]);
});

test('a healthy cluster with the overlay single has no findings', () => {
  const single = new Map([['gatehouse', deploymentWith(['serve', '--client-ca=/ca.crt'])] as const]);
  expect(bad({ deployments: read(single), accounts: [account('gatehouse')] })).toEqual([]);
});

test('a permission of the doctor that is missing for two accounts is reported once', () => {
  const permission = { verb: 'create', resource: 'subjectaccessreviews.authorization.k8s.io' };
  const access = { kind: 'unread', reason: 'Forbidden', message: 'no', permission } as const;
  const found = bad({ accounts: ['a', 'b'].map((name) => account(name, { access })) });
  expect(found.map(({ check }) => check)).toEqual(['access']);
});

test.each<readonly [what: string, change: Partial<InstallationReadings>, found: string, seen: string]>([
  [
    'a workload asks for restarts where Gatehouse may not restart it',
    { restarts: read({ checked: 2, missing: [{ namespace: 'shop', workloads: ['Deployment shop/api'] }] }) },
    'restarts: warning',
    'may not restart Deployment shop/api after a renewal',
  ],
  [
    'the API server is too old',
    { version: { major: 1, minor: 29, gitVersion: 'v1.29.15' } },
    'kubernetes: problem',
    'runs Kubernetes v1.29.15, but Gatehouse supports 1.30 to 1.37',
  ],
  [
    'the API server hides its version',
    { version: { major: 0, minor: 0, gitVersion: '' } },
    'kubernetes: unknown',
    'the API server does not say its version',
  ],
  [
    'a kind is not installed',
    { definitions: read(withoutOne) },
    'definitions: problem',
    `CustomResourceDefinition ${firstName} does not exist`,
  ],
  [
    'a kind is served in another version',
    { definitions: read(notServed) },
    'definitions: problem',
    'served as v1, not as v1alpha1',
  ],
  [
    'a kind is of an older release',
    { definitions: read(older) },
    'definitions: warning',
    'lacks spec.match, spec.failurePolicy',
  ],
  [
    'a permission is missing',
    withAccount('gatehouse-controllers', {
      access: read({
        checked: 90,
        missing: ['get', 'list'].map((verb) => ({ verb, group: '', resource: 'secrets' })),
      }),
    }),
    'access: problem',
    'the ServiceAccount gatehouse-system/gatehouse-controllers has no permission to get/list secrets',
  ],
  [
    'every permission is missing',
    withAccount('gatehouse', {
      access: read({ checked: 1, missing: [{ verb: 'get', group: '', resource: 'secrets' }] }),
    }),
    'access: problem',
    'its bindings are missing',
  ],
  [
    'a kind that a policy needs cannot be read',
    withAccount('gatehouse-webhook', {
      governed: read({
        checked: 1,
        missing: [{ group: 'x.dev', resource: 'racks', policy: 'servers', needed: true }],
      }),
    }),
    'governed-kinds: problem',
    'cannot read racks.x.dev, which the policy servers needs',
  ],
  [
    'a kind that is only audited cannot be read',
    withAccount('gatehouse-webhook', {
      governed: read({
        checked: 1,
        missing: [{ group: 'x.dev', resource: 'racks', policy: 'servers', needed: false }],
      }),
    }),
    'governed-kinds: warning',
    'the policy servers cannot audit existing racks.x.dev',
  ],
  [
    'no replica of the controllers is ready',
    { deployments: read(running({ controllers: 0 })) },
    'deployments: problem',
    'gatehouse-controllers: 0 of 2 replicas are ready, so no certificate is renewed',
  ],
  [
    'one replica of the webhook is not ready',
    { deployments: read(running({ webhook: 1 })) },
    'deployments: warning',
    'gatehouse-webhook: 1 of 2 replicas are ready',
  ],
  [
    'the new version does not become ready',
    withDeployment(
      'gatehouse-webhook',
      deploymentWith(['webhook', '--client-ca=/ca.crt'], [], 2, {
        updatedReplicas: 1,
        conditions: [
          {
            ...{ type: 'Progressing', status: 'False', reason: 'ProgressDeadlineExceeded' },
            message: 'ReplicaSet "gatehouse-webhook-6c9" has timed out progressing.',
          },
        ],
      }),
    ),
    'deployments: problem',
    'gatehouse-webhook: the new version does not become ready: ReplicaSet "gatehouse-webhook-6c9" has timed out progressing.',
  ],
  [
    'a rollout has not ended',
    withDeployment(
      'gatehouse-webhook',
      deploymentWith(['webhook', '--client-ca=/ca.crt'], [], 2, { updatedReplicas: 1 }),
    ),
    'deployments: warning',
    'gatehouse-webhook: the new version is not everywhere: 1 of 2 replicas have it',
  ],
  [
    'a Deployment is scaled to 0',
    withDeployment('gatehouse-controllers', deploymentWith(['controllers'], [], 0, { replicas: 0 })),
    'deployments: problem',
    'gatehouse-controllers is scaled to 0, so no certificate is renewed',
  ],
  [
    'an image cannot be pulled',
    withPod({
      state: {
        waiting: { reason: 'ImagePullBackOff', message: 'Back-off pulling image "gatehouse:0.1.1"' },
      },
    }),
    'deployments: problem',
    'Pod gatehouse-system/gatehouse-webhook-6c9-x does not start: ImagePullBackOff: Back-off pulling image "gatehouse:0.1.1"',
  ],
  [
    'a process ends at once',
    withPod({
      state: {
        waiting: { reason: 'CrashLoopBackOff', message: 'back-off 40s restarting failed container' },
      },
      lastState: {
        terminated: {
          exitCode: 2,
          reason: 'Error',
          message: "error: unknown option '--nonsense'\nSee gatehouse controllers --help\n",
        },
      },
    }),
    'deployments: problem',
    "CrashLoopBackOff: it ended with exit code 2 (Error): error: unknown option '--nonsense'",
  ],
  [
    'one of the two Deployments is missing',
    { deployments: read(new Map([...running({})].slice(0, 1))) },
    'deployments: problem',
    'Deployment gatehouse-system/gatehouse-controllers does not exist: no certificate is renewed',
  ],
  [
    'the Deployment of an earlier release is left',
    withDeployment('gatehouse', deploymentWith(['serve', '--client-ca=/ca.crt'])),
    'deployments: warning',
    'gatehouse runs both processes next to their own Deployments',
  ],
  [
    'no replica leads',
    { lease: read({ spec: { holderIdentity: '' } }) },
    'leader: problem',
    'no replica holds the Lease',
  ],
  ['no replica has ever led', { lease: read(undefined) }, 'leader: problem', 'gatehouse does not exist'],
  [
    'the lease is not renewed',
    { lease: read({ spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: ago(2) } }) },
    'leader: problem',
    'last renewed it 120 s ago',
  ],
  [
    'the clock of the leader is ahead',
    { lease: read({ spec: { holderIdentity: 'one', renewTime: ago(-2) } }) },
    'clocks: warning',
    '120 s ahead of the API server',
  ],
  ['the clock of this machine is behind', { skewMs: -61_000 }, 'clocks: warning', '61 s behind'],
  [
    'a configuration is gone',
    { validating: read(undefined) },
    'webhook-configurations: problem',
    'nothing is enforced',
  ],
  [
    'a configuration lacks the entries of Gatehouse',
    { validating: read(configuration(bundle, { webhooks: [] })) },
    'webhook-configurations: problem',
    'lacks the entries for the kinds of Gatehouse',
  ],
  [
    'a configuration has no owner',
    { validating: read(configuration(bundle, { metadata: { name: 'gatehouse' } })) },
    'removal: warning',
    'ValidatingWebhookConfiguration "gatehouse" would stay if Gatehouse were removed',
  ],
  [
    'the Service is gone',
    { service: read(undefined) },
    'endpoints: problem',
    'Service gatehouse-system/gatehouse does not exist',
  ],
  [
    'the webhook is not called',
    { probe: read({ kind: 'not-called' }) },
    'webhook-reach: problem',
    'did not call',
  ],
  [
    'a bundle is stale',
    { mutating: read(configuration(foreignBundle)) },
    'ca-bundle: problem',
    'contains a stale bundle',
  ],
  [
    'a bundle is empty',
    { mutating: read(configuration('')) },
    'ca-bundle: problem',
    'contains a stale bundle',
  ],
  [
    'a bundle has one root more',
    { mutating: read(configuration(`${bundle}${foreignBundle}`)) },
    'ca-bundle: warning',
    'another bundle than the published one, but still a valid one',
  ],
  ['nothing is published', { caBundle: read(undefined) }, 'ca-bundle: problem', 'has no CA bundle'],
  ['the serving cert is gone', { chain: read(undefined) }, 'ca-bundle: problem', 'contains no certificate'],
  [
    'another manager writes a bundle',
    { managed: [read([written('cainjector')])] },
    'rivals: problem',
    '"cainjector" also writes caBundle',
  ],
  [
    'service-ca is asked for the same Service',
    {
      managed: [
        read([
          {
            kind: 'Service',
            metadata: {
              name: 'db',
              namespace: 'shop',
              annotations: {
                'gatehouse.dev/serving-cert-secret-name': 'db',
                'service.beta.openshift.io/serving-cert-secret-name': 'db',
              },
            },
          },
        ]),
      ],
    },
    'rivals: warning',
    'Service shop/db asks Gatehouse and, with service.beta.openshift.io/serving-cert-secret-name, also service-ca',
  ],
  [
    'a policy is not in force',
    { policies: read([policy(ready('False', 'no such kind\n(manifest)'))]) },
    'policies: problem',
    'is not Ready (Because): no such kind',
  ],
  [
    'a policy has not been processed',
    { policies: read([policy(ready('True', ''), 2)]) },
    'policies: warning',
    'has not processed the current generation',
  ],
  [
    'a window is open for long',
    { windows: read([window(ago(600), ago(-60))]) },
    'restore-windows: warning',
    'has been open for 10 h',
  ],
  [
    'a window has expired, but is not closed',
    { windows: read([window(ago(60), ago(10))]) },
    'restore-windows: problem',
    'has not closed it',
  ],
])('a finding reports that %s', (_what, change, found, text) => {
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

describe('a session of gatehouse serve --dev-url', () => {
  const untilIn = (seconds: number) => {
    const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
    const expiresAt = (ms: number) => new Date(NOW.getTime() + seconds * 1_000 + ms);
    const live = (ms: number) =>
      read({
        metadata: withDevSession({ name: 'gatehouse' }, { ...session, expiresAt: expiresAt(ms) }),
        webhooks: [
          {
            name: 'own-opening.mutate.gatehouse.dev',
            clientConfig: { url: 'https://eva:8443/mutate/own-opening', caBundle: 'RVZB' },
          },
        ],
      });
    return bad({ mutating: live(-33), validating: live(0) });
  };

  test('that is valid is one warning, and its own CA is not stale', () => {
    expect(untilIn(40)).toMatchObject([
      {
        check: 'dev-session',
        severity: 'warning',
        seen: 'eva@laptop serves the webhook entries of this cluster at https://eva:8443 until 2026-11-22T12:00:40.000Z, or longer if renewed',
        next: expect.stringContaining('ask eva@laptop') as string,
      },
    ]);
  });

  test('that has just ended is a warning: the leader restores the entries', () => {
    expect(untilIn(-2)).toMatchObject([{ check: 'dev-session', severity: 'warning' }]);
  });

  test.each([
    ['has not been restored', -60],
    ['claims more time than a session has', 86_400],
  ])('that %s is a problem', (_what, seconds) => {
    expect(untilIn(seconds)).toMatchObject([
      {
        check: 'dev-session',
        severity: 'problem',
        seen: expect.stringContaining('still point to the session of eva@laptop') as string,
        next: expect.stringContaining('kubectl delete mutatingwebhookconfiguration') as string,
      },
    ]);
  });
});

test('entries that point to a URL without a session contain a stale bundle', () => {
  const clientConfig = { url: 'https://eva:8443/mutate/own-opening', caBundle: 'RVZB' };
  const webhooks = [{ name: 'own-opening.mutate.gatehouse.dev', clientConfig }];
  const live = read(configuration(bundle, { webhooks }));
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

  test('the advice for a timeout is about firewalls and the port of the pods', () => {
    const [reach] = bad({ probe: read({ kind: 'unreachable', message: TIMED_OUT }) });
    expect(reach).toMatchObject({ check: 'webhook-reach', severity: 'problem', seen: TIMED_OUT });
    expect(reach?.next).toContain('--allow tcp:8443');
  });

  // Each as kube-apiserver 1.37 says it, with the URL, which has the word timeout.
  test.each([
    ['dial tcp 10.96.214.212:443: connect: connection refused', 'see the check endpoints'],
    ['no endpoints available for service "gatehouse"', 'see the check endpoints'],
    ['EOF', 'see the check endpoints'],
    [
      'tls: failed to verify certificate: x509: certificate signed by unknown authority',
      'see the check ca-bundle',
    ],
    [
      'tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2026-11-29T10:00:00Z is after 2026-11-01T00:00:00Z',
      'see the check ca-bundle',
    ],
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
    expect(
      bad({ slices, probe: read({ kind: 'unreachable', message }) }).find(
        ({ check }) => check === 'webhook-reach',
      )?.next,
    ).toContain(advice);
  });
});

test('expiry is judged by the clock of the API server', () => {
  const later = new Date(NOW.getTime() + 3 * 86_400_000);
  const lease = read({ spec: { holderIdentity: 'one', renewTime: later.toISOString() } });
  expect(bad({ now: later, lease }).map(({ seen: text }) => text)).toEqual([
    expect.stringContaining('does not verify the certificate') as string,
  ]);
});

test.each([
  [['ok', 'warning'], 0],
  [['ok', 'problem'], 1],
  [['ok', 'unknown'], 1],
] as const)('with %j the exit code is %i', (severities, expected) => {
  expect(exitCodeOf(severities.map((severity) => ({ severity })))).toBe(expected);
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
      'Service shop/api: it has no certificate in Secret api-tls',
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
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'Fine',
    message: '',
    lastTransitionTime: ago(1),
  } as const;
  const policy = {
    metadata: { name: 'servers' },
    spec: { match: { apiGroups: [''], resources: ['pods'] } },
    status: { conditions: [ready], violations: { total: 0, checked: 0, checkedAt: ago(2) } },
  } as unknown as AdmissionPolicy; // the other fields do not matter
  expect(bad({ policies: read([policy]) })).toMatchObject([
    {
      check: 'policies',
      severity: 'warning',
      seen: 'AdmissionPolicy servers matched no existing object at its last audit, 2m ago',
    },
  ]);
  const unread = {
    ...policy,
    status: {
      ...policy.status,
      violations: { total: 0, checked: 0, checkedAt: ago(2), message: 'could not check pods: 403 Forbidden' },
    },
  } as unknown as AdmissionPolicy;
  expect(bad({ policies: read([unread]) })).toEqual([]); // the check governed-kinds reports the permission
  const unserved = { ...ready, status: 'False', reason: 'UnknownKind' };
  const broken = {
    ...policy,
    status: { ...policy.status, conditions: [unserved] },
  } as unknown as AdmissionPolicy;
  expect(bad({ policies: read([broken]) }).map(({ severity }) => severity)).toEqual(['problem']);
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
      seen: 'no permission to get secrets in the namespace gatehouse-system',
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
});

import { describe, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { withDevSession } from '../../../admission/webhooks/dev-session.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { Claimed, Evidence } from './evidence.ts';
import {
  ago,
  bundle,
  configuration,
  definitions,
  foreignBundle,
  healthy,
  NOW,
} from '../../../../test/support/cli/healthy.ts';
import { judgeAll } from './judge.ts';
import { seen } from './look.ts';
import { formatFindings } from './report.ts';

const bad = (change: Partial<Evidence>) =>
  judgeAll({ ...healthy, ...change }).filter(({ severity }) => severity !== 'ok');

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
const asking: Claimed['metadata'] = {
  name: 'hook',
  annotations: { 'gatehouse.dev/inject-cabundle': 'true' },
};
const written = (manager: string): Claimed => ({
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
const TIMED_OUT =
  'failed calling webhook "own-opening.mutate.gatehouse.dev": failed to call webhook: context deadline exceeded';

test('a healthy cluster has nothing to find', () => {
  expect(bad({})).toEqual([]);
});

test.each<readonly [what: string, change: Partial<Evidence>, check: string, severity: string, seen: string]>([
  [
    'a kind is not installed',
    { definitions: seen(withoutOne) },
    'definitions',
    'problem',
    `no CustomResourceDefinition ${firstName}`,
  ],
  [
    'a kind is served in another version',
    { definitions: seen(notServed) },
    'definitions',
    'problem',
    'served as v1, not as v1alpha1',
  ],
  [
    'a kind is of an older release',
    { definitions: seen(older) },
    'definitions',
    'warning',
    'does not know spec.match, spec.failurePolicy',
  ],
  [
    'a permission is missing',
    {
      access: seen({
        asked: 90,
        refused: ['get', 'list'].map((verb) => ({ verb, group: '', resource: 'secrets' })),
      }),
    },
    'access',
    'problem',
    'may not get/list secrets',
  ],
  [
    'every permission is missing',
    { access: seen({ asked: 1, refused: [{ verb: 'get', group: '', resource: 'secrets' }] }) },
    'access',
    'problem',
    'its bindings are gone',
  ],
  [
    'a kind that a policy needs cannot be read',
    {
      governed: seen({
        asked: 1,
        refused: [{ group: 'x.dev', resource: 'racks', policy: 'servers', needed: true }],
      }),
    },
    'governed-kinds',
    'problem',
    'may not read racks.x.dev: the policy servers needs them',
  ],
  [
    'a kind that is only audited cannot be read',
    {
      governed: seen({
        asked: 1,
        refused: [{ group: 'x.dev', resource: 'racks', policy: 'servers', needed: false }],
      }),
    },
    'governed-kinds',
    'warning',
    'racks.x.dev is not audited by the policy servers',
  ],
  [
    'nobody leads',
    { lease: seen({ spec: { holderIdentity: '' } }) },
    'leader',
    'problem',
    'nobody holds the Lease',
  ],
  ['there never was a leader', { lease: seen(undefined) }, 'leader', 'problem', 'there is no Lease'],
  [
    'the lease is not renewed',
    { lease: seen({ spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: ago(2) } }) },
    'leader',
    'problem',
    'renewed it 120 s ago',
  ],
  [
    'the clock of the leader is ahead',
    { lease: seen({ spec: { holderIdentity: 'one', renewTime: ago(-2) } }) },
    'clocks',
    'warning',
    '120 s ahead of the API server',
  ],
  ['the clock of this machine is behind', { skewMs: -61_000 }, 'clocks', 'warning', '61 s behind'],
  [
    'a configuration is gone',
    { validating: seen(undefined) },
    'webhook-configurations',
    'problem',
    'nothing is enforced',
  ],
  [
    'a configuration is without our own entries',
    { validating: seen({ webhooks: [] }) },
    'webhook-configurations',
    'problem',
    "lacks the entries for Gatehouse's own kinds",
  ],
  [
    'the Service is gone',
    { service: seen(undefined) },
    'endpoints',
    'problem',
    'there is no Service gatehouse-system/gatehouse',
  ],
  ['nobody is asked', { probe: seen({ kind: 'not-asked' }) }, 'webhook-reach', 'problem', 'did not ask'],
  [
    'a bundle is stale',
    { mutating: seen(configuration(foreignBundle)) },
    'ca-bundle',
    'problem',
    'carries a stale bundle',
  ],
  [
    'a bundle is empty',
    { mutating: seen(configuration('')) },
    'ca-bundle',
    'problem',
    'carries a stale bundle',
  ],
  [
    'a bundle has one root more',
    { mutating: seen(configuration(`${bundle}${foreignBundle}`)) },
    'ca-bundle',
    'warning',
    'another bundle than the published one, which still does',
  ],
  [
    'nothing is published',
    { bundle: seen(undefined) },
    'ca-bundle',
    'problem',
    'no CA bundle in the ConfigMap',
  ],
  ['the serving cert is gone', { chain: seen(undefined) }, 'ca-bundle', 'problem', 'holds no certificate'],
  [
    'another manager writes a bundle',
    { claimed: [seen([written('cainjector')])] },
    'rivals',
    'problem',
    'also written by "cainjector"',
  ],
  [
    'service-ca is asked for the same Service',
    {
      claimed: [
        seen([
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
    'rivals',
    'warning',
    'Service shop/db asks Gatehouse, and by service.beta.openshift.io/serving-cert-secret-name also service-ca',
  ],
  [
    'a policy is not in force',
    { policies: seen([policy(ready('False', 'no such kind\n(manifest)'))]) },
    'policies',
    'problem',
    'is not Ready (Because): no such kind',
  ],
  [
    'a policy was not looked at',
    { policies: seen([policy(ready('True', ''), 2)]) },
    'policies',
    'warning',
    'was not looked at',
  ],
  [
    'a window is open for long',
    { windows: seen([window(ago(600), ago(-60))]) },
    'restore-windows',
    'warning',
    'is open for 10 h',
  ],
  [
    'a window has expired, and nobody closed it',
    { windows: seen([window(ago(60), ago(10))]) },
    'restore-windows',
    'problem',
    'nobody has closed it',
  ],
])('it is found that %s', (_what, change, check, severity, text) => {
  const findings = bad(change);
  expect(findings.map((finding) => [finding.check, finding.severity])).toEqual([[check, severity]]);
  expect(findings[0]?.seen).toContain(text);
  expect(findings[0]?.next).toMatch(/\w/);
});

test('of what is as it should be, nothing is said: our own writer, a ready policy, a closed window', () => {
  const closed = {
    ...window(ago(6_000), ago(600)),
    status: { phase: 'Completed', closedAt: ago(600) },
  } as const;
  expect(
    bad({
      claimed: [seen([written('gatehouse-cabundle'), { ...written('helm'), metadata: { name: 'others' } }])],
      policies: seen([policy(ready('True', ''))]),
      windows: seen([closed, window(ago(10), ago(-50))]),
    }),
  ).toEqual([]);
});

describe('a session of gatehouse serve --dev-url', () => {
  const untilIn = (seconds: number) => {
    const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
    const expiresAt = (ms: number) => new Date(NOW.getTime() + seconds * 1_000 + ms);
    const live = (ms: number) =>
      seen({
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

  test('that goes on is a warning, told once, and its own root is not stale', () => {
    expect(untilIn(40)).toMatchObject([
      {
        check: 'dev-session',
        severity: 'warning',
        seen: 'eva@laptop serves the webhook entries of this cluster at https://eva:8443, until 2026-11-22T12:00:40.000Z unless that is renewed',
        next: expect.stringContaining('ask eva@laptop') as string,
      },
    ]);
  });

  test('that has just ended is what the leader looks at in this moment', () => {
    expect(untilIn(-2)).toMatchObject([{ check: 'dev-session', severity: 'warning' }]);
  });

  test.each([
    ['nobody has put back', -60],
    ['claims more time than a session has', 86_400],
  ])('that %s is a problem', (_what, seconds) => {
    expect(untilIn(seconds)).toMatchObject([
      {
        check: 'dev-session',
        severity: 'problem',
        seen: expect.stringContaining('still lead to the session of eva@laptop') as string,
        next: expect.stringContaining('kubectl delete mutatingwebhookconfiguration') as string,
      },
    ]);
  });
});

test('entries that lead to a URL without a session carry a stale bundle', () => {
  const clientConfig = { url: 'https://eva:8443/mutate/own-opening', caBundle: 'RVZB' };
  const live = seen({ webhooks: [{ name: 'own-opening.mutate.gatehouse.dev', clientConfig }] });
  expect(bad({ mutating: live }).map(({ check, severity }) => [check, severity])).toEqual([
    ['ca-bundle', 'problem'],
  ]);
});

describe('while no replica answers', () => {
  test('it is told which entries refuse requests meanwhile', () => {
    const findings = bad({
      slices: seen([{ endpoints: [{ addresses: [], conditions: { ready: false } }] }]),
    });
    expect(findings.map(({ check }) => check)).toEqual(['endpoints', 'fail-closed']);
    expect(findings[1]?.seen).toContain('own-opening.mutate.gatehouse.dev');
  });

  test('a timeout is told to be a firewall, with the port of the pods', () => {
    const [reach] = bad({ probe: seen({ kind: 'unanswered', message: TIMED_OUT }) });
    expect(reach).toMatchObject({ check: 'webhook-reach', severity: 'problem', seen: TIMED_OUT });
    expect(reach?.next).toContain('--allow tcp:8443');
  });
});

test('an expired serving cert is found by the time of the API server', () => {
  const later = new Date(NOW.getTime() + 3 * 86_400_000);
  const lease = seen({ spec: { holderIdentity: 'one', renewTime: later.toISOString() } });
  expect(bad({ now: later, lease }).map(({ seen: text }) => text)).toEqual([
    expect.stringContaining('does not verify the certificate') as string,
  ]);
});

test('what may not be read is unknown, with the permission, and the rest is judged', () => {
  const permission = { verb: 'get', resource: 'secrets', namespace: 'gatehouse-system' };
  const findings = bad({
    chain: { kind: 'forbidden', permission },
    mutating: seen(configuration(foreignBundle)),
  });
  expect(findings).toEqual([
    {
      check: 'ca-bundle',
      severity: 'unknown',
      seen: 'you may not get secrets in the namespace gatehouse-system',
      next: expect.stringContaining('kubectl auth can-i get secrets -n gatehouse-system') as string,
    },
    expect.objectContaining({ check: 'ca-bundle', severity: 'problem' }) as object,
  ]);
});

test('programs read the same as people, with the number of each severity', () => {
  const findings = bad({ skewMs: undefined });
  expect(JSON.parse(formatFindings(findings, 'json', true))).toEqual({
    summary: { ok: 0, warning: 0, problem: 0, unknown: 1 },
    findings,
  });
  expect(formatFindings(findings, 'table', false)).toContain(
    'Problems: 0. Warnings: 0. Checks that could not be made: 1.',
  );
  expect(formatFindings(findings, 'table', true)).toContain('\u001b[90munknown');
});

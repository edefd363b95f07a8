/** deploy/argocd against statuses as Gatehouse writes them; kstatus.test.ts compares it with kstatus. */
import { expect, test } from 'vitest';

import { customResourceDefinitions } from '../../src/api/crds.ts';
import { argoHealth, healthChecks } from '../support/argocd-health.ts';

const at = { lastTransitionTime: '2026-11-21T12:00:00Z', observedGeneration: 2 };
const isReady = {
  type: 'Ready',
  status: 'True',
  reason: 'InForce',
  message: 'generation 2 is enforced',
  ...at,
};
const isNotReady = { ...isReady, status: 'False', reason: 'InvalidPath', message: 'spec.a: "x" is\nno path' };
const isInstalled = { ...isReady, type: 'WebhooksInstalled', reason: 'Installed' };

const policy = (status?: object) => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'servers', generation: 2 },
  ...(status === undefined ? {} : { status }),
});

test.each<[string, string, object]>([
  ['has no status yet', 'Progressing', { observedGeneration: -1 }],
  ['is in force', 'Healthy', { observedGeneration: 2, conditions: [isInstalled, isReady] }],
  ['was edited since', 'Progressing', { observedGeneration: 1, conditions: [isReady] }],
  [
    'waits',
    'Progressing',
    {
      observedGeneration: 2,
      conditions: [isNotReady, { ...isNotReady, type: 'Reconciling', status: 'True' }],
    },
  ],
  [
    'does not compile',
    'Degraded',
    {
      observedGeneration: 2,
      conditions: [isNotReady, isInstalled, { ...isNotReady, type: 'Stalled', status: 'True' }],
    },
  ],
  ['is not ready', 'Progressing', { observedGeneration: 2, conditions: [isNotReady] }],
])('a policy that %s is %s', async (_what, expected, status) => {
  expect((await argoHealth(policy(status))).status).toBe(expected);
});

test('the message is that of the condition Ready', async () => {
  const status = {
    observedGeneration: 2,
    conditions: [isNotReady, { ...isNotReady, type: 'Stalled', status: 'True' }],
  };
  expect(await argoHealth(policy(status))).toEqual({ status: 'Degraded', message: isNotReady.message });
  expect(await argoHealth(policy())).toEqual({
    status: 'Progressing',
    message: 'Gatehouse has not processed this generation yet',
  });
});

test('each kind that has a status has a health check', () => {
  const kinds = customResourceDefinitions().flatMap(({ manifest }) => {
    const text = JSON.stringify(manifest);
    return text.includes('"subresources"') ? [/"kind":"(\w+)","listKind"/.exec(text)?.[1]] : [];
  });
  expect([...healthChecks().keys()]).toEqual(kinds);
});

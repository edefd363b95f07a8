/** The messages of deploy/argocd, and its kinds; kstatus.test.ts compares its verdicts with kstatus. */
import { expect, test } from 'vitest';

import { customResourceDefinitions } from '../../src/api/crds.ts';
import { argoHealth, healthChecks } from '../support/argocd-health.ts';

const at = { lastTransitionTime: '2026-11-21T12:00:00Z', observedGeneration: 2 };
const isNotReady = {
  ...{ type: 'Ready', status: 'False', reason: 'InvalidPath', message: 'spec.a: "x" is\nno path' },
  ...at,
};

const policy = (status?: object) => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'servers', generation: 2 },
  ...(status === undefined ? {} : { status }),
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

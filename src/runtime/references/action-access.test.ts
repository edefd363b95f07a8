import { expect, test } from 'vitest';

import { compiled, GROUP, NEVER } from '../../../test/support/runtime/fixtures.ts';
import type { ReferenceRule } from '../../api/policy-validate.ts';
import type { AccessQuestion } from '../../kube/access.ts';
import type { KubeClient } from '../../kube/client.ts';
import { createActionAccessReconciler } from './action-access.ts';

const policy = (change: Partial<ReferenceRule>) =>
  compiled({
    validate: {
      references: [
        {
          name: 'dc',
          path: 'spec.datacenter',
          target: { apiGroup: GROUP, resource: 'datacenters' },
          ...change,
        },
      ],
    },
  });

test('the status of the policy has the ClusterRole that is missing, until it is granted', async () => {
  const missing: string[] = [];
  let allowed = false;
  const asked: AccessQuestion[] = [];
  const client = {
    create: ((_resource: unknown, { spec }: { spec: { resourceAttributes: AccessQuestion } }) => {
      asked.push(spec.resourceAttributes);
      return Promise.resolve({ status: { allowed } });
    }) as KubeClient['create'], // a SelfSubjectAccessReview
  };
  const kind = { group: GROUP, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true };
  const reconcile = createActionAccessReconciler(
    () => [policy({ onTargetDelete: 'Cascade' })],
    client,
    { resolve: () => Promise.resolve(kind) },
    undefined,
    (_policy, message) => missing.push(message),
    () => new Date('2026-11-27T12:00:00Z'),
  );
  expect(await reconcile('servers', NEVER)).toMatchObject({ kind: 'requeue' });
  allowed = true;
  expect(await reconcile('servers', NEVER)).toMatchObject({ kind: 'requeue' });
  expect(await reconcile('no-policy', NEVER)).toEqual({ kind: 'gone' });
  expect(asked[0]).toMatchObject({ verb: 'delete', group: GROUP, resource: 'servers' });
  expect(missing).toEqual([
    expect.stringMatching(
      /lacks permission to delete servers\.infra\.example\.com after a target is deleted\. Add this ClusterRole:\n[^]*aggregate-to-actions/,
    ),
    '',
    '',
  ]);
});

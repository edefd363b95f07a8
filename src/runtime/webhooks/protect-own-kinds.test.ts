import { beforeEach, expect, test } from 'vitest';

import { createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { Principal } from '../../api/principals.ts';
import { OWN_KINDS_POLICY_NAME } from '../../admission/webhooks/protect-own-kinds.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { validatingAdmissionPolicies } from '../../kube/well-known.ts';
import { createProtectOwnKindsReconciler } from './protect-own-kinds.ts';

let { client, objects } = createCluster();
let writes: string[];
let restorers: Principal[];

beforeEach(() => {
  ({ client, objects } = createCluster());
  restorers = [{ group: 'system:serviceaccounts:velero' }];
});

const detector = (): RestoreDetector => ({
  metadata: { name: 'velero' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    principals: restorers,
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
  },
});

async function reconcile(): Promise<readonly string[]> {
  writes = [];
  const logged =
    <Args extends readonly unknown[], Result>(verb: string, write: (...args: Args) => Result) =>
    (...args: Args): Result => {
      writes.push(`${verb} ${(args[0] as Resource).kind}`);
      return write(...args);
    };
  const recording: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'> = {
    get: client.get,
    create: <T extends KubeObject>(kind: Resource, object: T) =>
      logged('create', client.create<T>)(kind, object),
    replace: <T extends KubeObject>(kind: Resource, object: T) =>
      logged('replace', client.replace<T>)(kind, object),
    delete: logged('delete', client.delete),
  };
  const detectors = { list: () => (restorers.length === 0 ? [] : [detector()]) };
  await createProtectOwnKindsReconciler(recording, detectors, () => new Date(0), silent)('', NEVER);
  return writes;
}

const POLICY = 'ValidatingAdmissionPolicy';
const BINDING = 'ValidatingAdmissionPolicyBinding';

test('policy and binding are created once, and replaced when another client changes them', async () => {
  expect(await reconcile()).toEqual([`create ${POLICY}`, `create ${BINDING}`]);
  expect(await reconcile()).toEqual([]);
  objects(validatingAdmissionPolicies).edit(OWN_KINDS_POLICY_NAME, (policy) => ({ ...policy, spec: {} }));
  expect(await reconcile()).toEqual([`replace ${POLICY}`]);
});

test('they follow the detectors, and are deleted with the last one', async () => {
  await reconcile();
  restorers = [{ user: 'k10' }];
  expect(await reconcile()).toEqual([`replace ${POLICY}`]);
  restorers = [];
  expect(await reconcile()).toEqual([`delete ${POLICY}`, `delete ${BINDING}`]);
  expect(await reconcile()).toEqual([]);
});

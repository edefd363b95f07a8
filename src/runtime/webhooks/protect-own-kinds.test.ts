import { beforeEach, expect, test } from 'vitest';

import { createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { Principal } from '../../api/principals.ts';
import { OWN_KINDS_POLICY_NAME } from '../../admission/webhooks/protect-own-kinds.ts';
import { installationOwner } from '../../admission/webhooks/installation-owner.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import { createProtectOwnKindsReconciler } from './own-kinds.ts';

let { client, objects } = createCluster();
let writes: string[];
let restorers: Principal[];
let owner: OwnerReference | undefined;
let obstacle: string | undefined;
let isChanging: boolean;

beforeEach(() => {
  ({ client, objects } = createCluster());
  owner = installationOwner('1');
  obstacle = undefined;
  isChanging = false;
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

const pass = () =>
  createProtectOwnKindsReconciler({
    client: recording(),
    detectors: { list: () => (restorers.length === 0 ? [] : [detector()]) },
    installation: {
      owner: () => Promise.resolve(owner),
      obstacle: () => Promise.resolve(obstacle),
      withOwner: (by, write) => write(by),
      isChanging: () => isChanging,
    },
    now: () => new Date(0),
    log: silent,
  })('', NEVER);

async function reconcile(): Promise<readonly string[]> {
  writes = [];
  await pass();
  return writes;
}

function recording(): Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'> {
  const logged =
    <Args extends readonly unknown[], Result>(verb: string, write: (...args: Args) => Result) =>
    (...args: Args): Result => {
      writes.push(`${verb} ${(args[0] as Resource).kind}`);
      return write(...args);
    };
  return {
    get: client.get,
    create: <T extends KubeObject>(kind: Resource, object: T) =>
      logged('create', client.create<T>)(kind, object),
    replace: <T extends KubeObject>(kind: Resource, object: T) =>
      logged('replace', client.replace<T>)(kind, object),
    delete: logged('delete', client.delete),
  };
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

test('the role of the installation owns both, with its current uid', async () => {
  await reconcile();
  const ownersOf = () =>
    [validatingAdmissionPolicies, validatingAdmissionPolicyBindings].map(
      (kind) => objects(kind).read(OWN_KINDS_POLICY_NAME)?.metadata?.ownerReferences,
    );
  expect(ownersOf()).toEqual([[installationOwner('1')], [installationOwner('1')]]);
  owner = installationOwner('2');
  expect(await reconcile()).toEqual([`replace ${POLICY}`, `replace ${BINDING}`]);
  owner = undefined;
  expect(await reconcile()).toEqual([]);
  expect(ownersOf()).toEqual([[installationOwner('2')], [installationOwner('2')]]);
});

test('while somebody removes Gatehouse, nothing is created', async () => {
  obstacle = 'the Service is gone';
  expect(await reconcile()).toEqual([]);
  obstacle = undefined;
  expect(await reconcile()).toEqual([`create ${POLICY}`, `create ${BINDING}`]);
});

test('they are compared every minute, and every second while the garbage collector may delete them', async () => {
  expect(await pass()).toEqual({ kind: 'requeue', at: new Date(60_000) });
  isChanging = true;
  expect(await pass()).toEqual({ kind: 'requeue', at: new Date(1_000) });
});

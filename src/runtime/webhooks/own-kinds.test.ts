import { expect, test } from 'vitest';
import { ALLOWED } from '../../admission/review/decision.ts';
import { requestOf } from '../../../test/support/admission/handler.ts';
import { containing, createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { installationOwner } from '../../admission/webhooks/installation-owner.ts';
import { OWN_KINDS_POLICY_NAME } from '../../admission/webhooks/protect-own-kinds.ts';
import type { RestoreGuard } from '../../api/restore-guard.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Principal } from '../../api/principals.ts';
import type { AccessQuestion } from '../../kube/access.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import { createOwnKinds, createProtectOwnKindsReconciler } from './own-kinds.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const none = { store: { list: () => [], get: () => undefined, byIndex: () => [] } } as never;

const warn = {
  ofPolicy: () => Promise.resolve({ ...ALLOWED, warnings: ['checked'] }),
  ofException: () => ({ ...ALLOWED, warnings: ['not in force'] }),
};

const SOURCES = {
  windows: none,
  detectors: none,
  records: { recordOf: () => 'record', verdict: () => 'unreviewed' as const },
  ownNamespace: 'gatehouse-system',
  owners: { isOurs: () => false },
  guards: () => Promise.resolve({ ...ALLOWED, warnings: ['guarded'] }),
};

/** Records the questions. By default, the user may open windows in every single namespace, but not for the whole cluster. */
function scene(isAway = false) {
  const asked: AccessQuestion[] = [];
  const mayUser = (_user: unknown, question: AccessQuestion) => {
    asked.push(question);
    if (isAway) return Promise.reject(new Error('connection refused'));
    return Promise.resolve(question.namespace !== undefined);
  };
  return { asked, ...createOwnKinds({ mayUser, ...SOURCES }, warn, () => NOW) };
}

const creation = (resource: string, spec: object) =>
  requestOf({
    kind: { group: 'gatehouse.dev', version: 'v1alpha1', kind: 'X' },
    resource: { group: 'gatehouse.dev', version: 'v1alpha1', resource },
    operation: 'CREATE',
    object: { apiVersion: 'gatehouse.dev/v1alpha1', kind: 'X', metadata: { name: 'drill' }, spec },
  });
const windowIn = (include: readonly string[]) =>
  creation('restorewindows', {
    principals: [{ user: 'system:serviceaccount:ns-0:restore' }],
    expiresAt: '2026-11-21T13:00:00Z',
    match: { namespaces: { include } },
  });
const namespaces = (count: number) => Array.from({ length: count }, (_, at) => `ns-${at}`);

test('a window asks once for the cluster and once for each namespace', async () => {
  const { validate, asked } = scene();
  expect(await validate(windowIn(['ns-0', 'store', 'ns-0']), NEVER)).toMatchObject({ kind: 'allow' });
  expect(asked.map(({ namespace }) => namespace)).toEqual([undefined, 'ns-0', 'store']);
});

const detector = creation('restoredetectors', { principals: namespaces(33) });

test.each([
  ['a window in 1,500 namespaces', windowIn(namespaces(1_500)), 'must not have more than 256 items'],
  ['a detector with 33 principals', detector, 'principals'],
])('%s breaks the schema and causes no SubjectAccessReview', async (_case, request, message) => {
  const { validate, asked } = scene();
  const denied = { kind: 'deny', code: 403, message: containing(message) };
  expect(await validate(request, NEVER)).toMatchObject(denied);
  expect(asked).toEqual([]);
});

test('the record of what the opener may open comes from one SubjectAccessReview for the cluster, at the creation', async () => {
  const { mutate, asked } = scene();
  expect(await mutate(windowIn(['ns-0']), NEVER)).toMatchObject({ kind: 'allow' });
  expect(asked).toMatchObject([{ verb: 'open', resource: 'restorewindows', namespace: undefined }]);
  const created = windowIn(['ns-0']);
  await mutate({ ...created, operation: 'UPDATE', oldObject: created.object }, NEVER);
  expect(asked).toHaveLength(1);
});

test('a window is not stored while its opener cannot be checked', async () => {
  const { mutate } = scene(true);
  expect(await mutate(windowIn(['ns-0']), NEVER)).toMatchObject({ kind: 'retry' });
});

test('a policy that breaks the schema causes no SubjectAccessReview: the API server refuses it later', async () => {
  const { mutate, asked } = scene();
  const broken = creation('admissionpolicies', { match: {}, validate: { references: 5 } });
  expect(await mutate(broken, NEVER)).toMatchObject({ kind: 'allow', patch: [] });
  expect(asked).toEqual([]);
});

test('a PolicyException gets warnings, no questions, and restorers may write it', async () => {
  const { validate, asked } = scene();
  const spec = { policy: 'p', objects: { names: ['a'] }, reason: 'a', expiresAt: '2026-12-01T00:00:00Z' };
  const written = { ...creation('policyexceptions', spec), namespace: 'shop' };
  expect(await validate(written, NEVER)).toMatchObject({ kind: 'allow', warnings: ['not in force'] });
  expect(asked).toEqual([]);
  expect(await validate(creation('policyexceptions', { policy: 5 }), NEVER)).toMatchObject({ kind: 'deny' });
});

test('the policy and the binding that protect our own kinds are created once, repaired, follow the detectors, and are deleted with the last one', async () => {
  const KINDS = [validatingAdmissionPolicies, validatingAdmissionPolicyBindings];
  const { client, objects } = createCluster();
  let restorers: readonly Principal[] = [{ group: 'system:serviceaccounts:velero' }];
  type Parts = Parameters<typeof createProtectOwnKindsReconciler>[0];
  const installation: Parts['installation'] = {
    owner: () => Promise.resolve(installationOwner('1')),
    obstacle: () => Promise.resolve(undefined),
    withOwner: (by, write) => write(by),
    isChanging: () => false,
  };
  const list = () => {
    const watch = { apiGroup: 'velero.io', version: 'v1', resource: 'restores' };
    const phase = { phasePath: 'status.phase', activeValues: ['InProgress'] };
    const spec = { watch, namespaces: ['velero'], principals: restorers, ...phase };
    return restorers.length === 0 ? [] : [{ metadata: { name: 'velero' }, spec }];
  };
  const detectors = { list };
  let open: readonly RestoreWindow[] = [];
  const windows = { list: () => open };
  const parts = { client, windows, detectors, installation, now: () => NOW, log: silent };
  /** Returns how often each of them was written so far. */
  const reconcile = async (): Promise<readonly number[]> => {
    await createProtectOwnKindsReconciler(parts)('', NEVER);
    return KINDS.map((kind) => objects(kind).writes());
  };
  expect(await reconcile()).toEqual([1, 1]);
  expect(await reconcile()).toEqual([1, 1]);
  objects(validatingAdmissionPolicies).edit(OWN_KINDS_POLICY_NAME, (policy) => ({ ...policy, spec: {} }));
  expect(await reconcile()).toEqual([2, 1]);
  restorers = [{ user: 'k10' }];
  expect(await reconcile()).toEqual([3, 1]);
  restorers = [];
  open = [guarding({ refuse: ['APIServices'] })];
  expect(await reconcile()).toEqual([4, 1]);
  open = [guarding({ refuse: ['Permissions'] })];
  await reconcile();
  await reconcile();
  expect(KINDS.flatMap((kind) => objects(kind).list())).toEqual([]);
});

const guarding = (guard: RestoreGuard): RestoreWindow => ({
  metadata: { name: 'drill', annotations: { 'gatehouse.dev/opener-scope': 'Cluster' } },
  spec: { principals: [{ user: 'k10' }], expiresAt: '2026-11-21T13:00:00Z', guard },
});

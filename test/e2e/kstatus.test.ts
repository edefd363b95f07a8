// suite: shared-plane, sandbox: long
/** Objects of a cluster in the states that users wait for; test/integration/kstatus.test.ts has the other states. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { CONVERSION_POLICIES, POLICY_EXCEPTIONS, RESTORE_DETECTORS } from '../../src/runtime/resources.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { argoHealth } from '../support/argocd-health.ts';
import { ADMISSION_POLICIES, createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { kstatus, type KStatus } from '../support/kstatus.ts';
import { isTrue, type Conditioned } from '../support/objects.ts';

let cluster: Cluster;
let kubectl: Kubectl;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await createNamespace(cluster, 'shop');
  kubectl = createKubectl(cluster.plane);
});

afterAll(async () => {
  kubectl.stop();
  await cluster.stop();
});

const RESOURCES = [
  ADMISSION_POLICIES,
  CONVERSION_POLICIES,
  POLICY_EXCEPTIONS,
  RESTORE_DETECTORS,
  RESTORE_WINDOWS,
];

const spec = {
  match: { apiGroups: [''], resources: ['configmaps'], objectSelector: { matchLabels: { judged: 'yes' } } },
  validate: { rules: [{ name: 'small', expression: 'object.data.size() < 3', message: 'too large' }] },
};
const broken = { rules: [{ name: 'odd', expression: 'object.data +', message: 'no' }] };
const target = { apiGroup: 'nothing.example.com', resource: 'nothings' };
const conversion = { target, hub: 'v1', versions: [{ name: 'v2' }] };
const detector = {
  watch: { apiGroup: 'backups.example.com', version: 'v1', resource: 'restores' },
  namespaces: ['backups'],
  phasePath: 'status.phase',
  activeValues: ['Running'],
  principals: [{ user: 'backup' }],
};
const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
const exception = { policy: 'later', objects: { names: ['a'] }, reason: 'old', expiresAt };
const window = { principals: [{ user: 'backup' }], expiresAt };

const HEALTH = { Ready: 'Healthy', Reconciling: 'Progressing', Stalled: 'Degraded' };
const JUDGED = { Ready: 'Current', Reconciling: 'InProgress', Stalled: 'Failed' } as const;
const seen: { readonly object: KubeObject; readonly expected: KStatus }[] = [];

test.each<[what: string, kind: string, spec: object, standing: keyof typeof JUDGED]>([
  ['a policy in force', 'AdmissionPolicy', spec, 'Ready'],
  ['a policy that does not compile', 'AdmissionPolicy', { ...spec, validate: broken }, 'Stalled'],
  ['a conversion without its definition', 'ConversionPolicy', conversion, 'Reconciling'],
  ['an exception of a policy that does not exist', 'PolicyException', exception, 'Reconciling'],
  ['a detector whose tool is not installed', 'RestoreDetector', detector, 'Ready'],
  ['an open window', 'RestoreWindow', window, 'Ready'],
])('kubectl wait and Argo CD agree about %s', async (_what, kind, given, standing) => {
  const resource = RESOURCES.find((one) => one.kind === kind) ?? ADMISSION_POLICIES;
  const ref = { name: `judged-${standing.toLowerCase()}`, ...(resource.namespaced && { namespace: 'shop' }) };
  const created = await cluster.admin.create<KubeObject>(resource, {
    apiVersion: 'gatehouse.dev/v1alpha1',
    ...{ kind, metadata: ref, spec: given },
  });
  expect(await argoHealth({ ...created, kind })).toMatchObject({ status: 'Progressing' });
  const found = await cluster.see<Conditioned>(
    `${kind} is ${standing}`,
    resource,
    ref,
    isTrue(standing),
    30_000,
  );
  expect(await argoHealth({ ...found, kind })).toMatchObject({ status: HEALTH[standing] });
  seen.push(
    { object: { ...created, kind }, expected: 'InProgress' },
    { object: { ...found, kind }, expected: JUDGED[standing] },
  );
  if (!HAS_KUBECTL) return; // kubectl.ts logs that it is missing
  const wait = `wait ${kind}/${ref.name} -n shop --for=condition=${standing} --timeout=5s`;
  expect(await kubectl.says(wait)).toContain('condition met');
});

test('kstatus agrees about all of them', async () => {
  expect(await kstatus(seen.map(({ object }) => object))).toEqual(seen.map(({ expected }) => expected));
  expect(seen.length).toBeGreaterThan(0);
});

// suite: shared-plane, sandbox: yes
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeClient } from '../../src/kube/client.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { DATACENTERS, RESTORE_WINDOWS, SERVERS, type Cluster } from '../support/cluster.ts';
import { enforceExamples, startGatehouse, outcomeOf, seePhase } from '../support/gatehouse-cluster.ts';
import { condition, datacenter, server, restoreWindow, inShop } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { VELERO } from '../support/velero-client.ts';

let cluster: Cluster;
let restorer: KubeClient;
let alice: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({ arrangement: 'both' }));
  await enforceExamples(cluster);
  await cluster.apply(clusterAdmin('test-velero', VELERO.user), clusterAdmin('test-alice', 'alice'));
  restorer = cluster.impersonate(VELERO);
  alice = await cluster.as('alice');
});

afterAll(() => cluster.stop());

const window = (name: string) =>
  restoreWindow(name, { principals: [{ user: VELERO.user }], reason: 'drill' });

/** The outcome of creating a Server without its datacenter: `allowed`, or the denial. */
function verdict(client: KubeClient, name: string, dryRun = false): Promise<string> {
  const labels = { 'velero.io/restore-name': 'drill' };
  return outcomeOf(client.create(SERVERS, server('shop', name, `dc-of-${name}`, { labels }), { dryRun }));
}

test('without a window, no user can create a Server before its datacenter', async () => {
  expect(await verdict(restorer, 'early')).toContain('spec.datacenter');
});

test('in a window, the restorer can create it immediately, and an ordinary user cannot, even with a label of Velero', async () => {
  await cluster.admin.create(RESTORE_WINDOWS, window('drill'));
  // If the replica has not seen the window yet, it reads live for the restorer instead of denying.
  expect(await verdict(restorer, 'restored')).toBe('allowed');
  expect(await verdict(alice, 'forged')).toContain('spec.datacenter');
  await seePhase(cluster, 'drill', 'Open');
});

test('in a window, all other checks are also enforced for the restorer', async () => {
  const change = restorer.patchMerge(SERVERS, inShop('restored'), { spec: { datacenter: 'elsewhere' } });
  await expect(change).rejects.toThrow(/spec\.datacenter/);
  const stored = await cluster.admin.get<KubeObject & { spec: object }>(SERVERS, {
    namespace: 'shop',
    name: 'restored',
  });
  expect(stored?.spec).toMatchObject({ tier: 'standard' });
});

test('closing ends the deferral, and the sweep reports the violation', async () => {
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
  await eventually(
    'the restorer is refused again',
    async () => (await verdict(restorer, 'late', true)) !== 'allowed',
  );

  const closed = await seePhase(cluster, 'drill', 'CompletedWithViolations');
  expect(closed.status?.violations).toMatchObject({
    total: 1,
    items: [
      {
        policy: 'servers',
        reference: 'datacenter',
        field: 'spec.datacenter',
        object: { kind: 'Server', namespace: 'shop', name: 'restored' },
        target: { group: 'infra.example.com', resource: 'datacenters', name: 'dc-of-restored' },
      },
    ],
  });
  expect(condition(closed, 'IntegrityVerified')).toMatchObject({
    status: 'False',
    reason: 'ViolationsFound',
  });
});

test('an object with a violation can still be changed and annotated', async () => {
  await alice.patchMerge(SERVERS, inShop('restored'), { metadata: { annotations: { seen: 'yes' } } });
});

test('the violation disappears when the datacenter is created', async () => {
  await cluster.admin.create(DATACENTERS, datacenter('dc-of-restored'));
  const clean = await seePhase(cluster, 'drill', 'Completed');
  expect(clean.status?.violations).toMatchObject({ total: 0, items: [] });
  expect(condition(clean, 'IntegrityVerified')?.status).toBe('True');
});

/** Changes under load: a rotation of the CA, and policy changes. */
import { secrets } from '../../../src/kube/well-known.ts';
import { ADMISSION_POLICIES } from '../../support/cluster.ts';
import { endTrust } from '../../support/end-trust.ts';
import { seeInForce } from '../../support/gatehouse-cluster.ts';
import { text, type SecretObject } from '../../support/objects.ts';
import { AUTHORITY, SERVING } from '../../support/own-objects.ts';
import { eventually } from '../../support/processes.ts';
import { machine, machinePolicy, MACHINES, rackPolicy, STAMP } from '../kinds.ts';
import type { Scene } from '../scene.ts';
import { timed, type Fault } from './fault.ts';

const ROTATED_MS = 120_000;
const CHANGED_MS = 60_000;

/** Recovery: the longest time from the annotation until the old generation is gone. */
export const caRotation: Fault = {
  name: 'CA rotation',
  run: async (scene) => {
    let longest = 0;
    for (let round = 0; round < (scene.isShort ? 1 : 3); round += 1)
      longest = Math.max(longest, await timed(() => rotate(scene, round)));
    return longest;
  },
};

async function rotate({ cluster }: Scene, round: number): Promise<void> {
  const generations = async (): Promise<readonly string[]> => {
    const secret = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
    if (secret === undefined) throw new Error('the authority is gone');
    // The format that docs/trust.md documents: a list of generations with their ids.
    return (JSON.parse(text(secret, 'generations.json')) as { id: string }[]).map(({ id }) => id);
  };
  const leaf = async () => text((await cluster.admin.get<SecretObject>(secrets, SERVING)) ?? {}, 'tls.crt');
  const [[old], replaced] = [await generations(), await leaf()];
  const annotations = { 'gatehouse.dev/rotate': `chaos-${round}` };
  await cluster.admin.patchMerge(secrets, AUTHORITY, { metadata: { annotations } });
  await eventually('the new CA signs', async () => (await leaf()) !== replaced, { timeoutMs: ROTATED_MS });
  await endTrust(cluster);
  await eventually(
    'one new generation is left',
    async () => {
      const ids = await generations();
      return ids.length === 1 && ids[0] !== old;
    },
    { timeoutMs: ROTATED_MS, everyMs: 100 },
  );
}

/** The number of consecutive dry runs that must show the new version. Each may reach a different replica. */
const IN_A_ROW = 12;

/** Recovery: the longest time from a policy change until every replica enforces it. */
export const policyChanges: Fault = {
  name: 'policy changes',
  run: async (scene) => {
    let longest = 0;
    for (let round = 1; round <= (scene.isShort ? 3 : 20); round += 1) {
      const took = await timed(() => changeStamp(scene, `r${round}`, 9 + (round % 2)));
      longest = Math.max(longest, took);
      if (round % 3 === 0) await removeAndRestore(scene);
    }
    return longest;
  },
};

/** A different timeout also changes the webhook entries, while requests for the old entries are in flight. */
async function changeStamp({ cluster, stamps }: Scene, stamp: string, timeoutSeconds: number): Promise<void> {
  const end = stamps.begin(stamp);
  await cluster.apply(machinePolicy(stamp, timeoutSeconds));
  let inARow = 0;
  await eventually(
    `every replica sets ${stamp}`,
    async () => {
      const probe = machine('east', 'probe', { rack: 'rack-0' });
      const seen = await cluster.admin.create(MACHINES, probe, { dryRun: true });
      inARow = seen.metadata?.labels?.[STAMP] === stamp ? inARow + 1 : 0;
      return inARow >= IN_A_ROW;
    },
    { timeoutMs: CHANGED_MS, everyMs: 20 },
  );
  await seeInForce(cluster, 'machines');
  end();
}

/**
 * Removes and adds the webhook entry of Racks. The load writes Racks meanwhile, and Gatehouse must not reject these
 * writes.
 */
async function removeAndRestore({ cluster }: Scene): Promise<void> {
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'racks' });
  await cluster.apply(rackPolicy);
  await seeInForce(cluster, 'racks');
}

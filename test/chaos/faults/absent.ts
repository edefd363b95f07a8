/** One of the two Deployments is away, and the other one works on. */
import { setTimeout as sleep } from 'node:timers/promises';

import { secrets, services } from '../../../src/kube/well-known.ts';
import { resourcePath } from '../../../src/kube/object.ts';
import { localService } from '../../support/cluster.ts';
import { eventually } from '../../support/processes.ts';
import { machine, MACHINES } from '../kinds.ts';
import { answersReviews } from '../replicas.ts';
import { SERVICES, type Scene } from '../scene.ts';
import { timed, type Fault } from './fault.ts';

const AWAY_MS = { short: 15_000, full: 5 * 60_000 };
const LEADER_MS = 60_000;

/**
 * Kills all controllers and starts them again after five minutes. Meanwhile, no admission may fail, although a webhook
 * replica is replaced too. Recovery: the time until a controller leads again.
 */
export const noControllers: Fault = {
  name: 'no controllers',
  arrangement: 'split',
  run: async ({ isShort, replicas }) => {
    const killed = replicas.members().filter(({ slot }) => !answersReviews(slot));
    for (const one of killed) replicas.kill(one);
    const from = performance.now();
    await replicas.replace('a');
    await sleep(Math.max(0, from + (isShort ? AWAY_MS.short : AWAY_MS.full) - performance.now()));
    return await timed(async () => {
      await Promise.all(killed.map(({ slot }) => replicas.start(slot)));
      await eventually('a controller leads', replicas.leader, { timeoutMs: LEADER_MS, everyMs: 50 });
    });
  },
};

/** A leader issues a certificate in about a second. Webhook replicas need longer to start. */
const CERTIFICATE_MS = 5_000;
const ROUNDS = { short: 3, full: 20 };

/**
 * Kills all webhook replicas and starts them again. Meanwhile, each new Service gets its certificate, and each deleted one is
 * replaced. Recovery: the longest time until a certificate existed.
 */
export const noWebhooks: Fault = {
  name: 'no webhook replicas',
  arrangement: 'split',
  run: (scene) =>
    // The policies of the load fail closed.
    scene.withOutage(async () => {
      const { isShort, replicas } = scene;
      const killed = replicas.members().filter(({ slot }) => answersReviews(slot));
      for (const one of killed) replicas.kill(one);
      let longest = 0;
      for (let round = 0; round < (isShort ? ROUNDS.short : ROUNDS.full); round += 1)
        longest = Math.max(longest, await timed(() => certify(scene, `without-webhooks-${round}`)));
      await Promise.all(killed.map(({ slot }) => replicas.start(slot)));
      await untilReviewed(scene);
      return longest;
    }),
};

async function certify({ cluster, seeded }: Scene, name: string): Promise<void> {
  const annotations = { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` };
  await cluster.admin.create(services, localService('shop', name, 443, annotations));
  const lost = { namespace: 'shop', name: `${seeded.pick(SERVICES)}-tls` };
  await cluster.admin.delete(secrets, lost);
  for (const ref of [{ namespace: 'shop', name: `${name}-tls` }, lost])
    await cluster.see(`the certificate ${ref.name}`, secrets, ref, undefined, CERTIFICATE_MS);
}

/** Each dry run may reach another replica. */
const IN_A_ROW = 12;

async function untilReviewed({ client }: Scene): Promise<void> {
  const path = `${resourcePath(MACHINES, { namespace: 'east' })}?dryRun=All`;
  const probe = machine('east', 'probe', { rack: 'rack-0' });
  let inARow = 0;
  await eventually(
    'the API server reaches the webhook replicas',
    async () => {
      const { code } = await client.ask('POST', path, probe);
      inARow = code === 201 ? inARow + 1 : 0;
      return inARow >= IN_A_ROW;
    },
    { timeoutMs: LEADER_MS, everyMs: 50 },
  );
}

/** Stops and restarts the API server and etcd. Recovery: the time from the stop until the first write is stored. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { Scene } from '../scene.ts';
import { timed, type Fault } from './fault.ts';

const ETCD_AWAY_MS = 2_000;

export const apiServerRestart: Fault = {
  name: 'API server restart',
  run: (scene) =>
    outage(scene, async () => {
      await scene.processes.stopApiServer();
      scene.processes.launch();
    }),
};

export const etcdRestart: Fault = {
  name: 'etcd restart',
  run: (scene) =>
    outage(scene, async () => {
      await scene.processes.stopEtcd();
      await sleep(ETCD_AWAY_MS);
      await scene.processes.start();
    }),
};

const outage = ({ withOutage }: Scene, work: () => Promise<void>) => timed(() => withOutage(work));

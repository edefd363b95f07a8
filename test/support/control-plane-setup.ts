/** Vitest's global setup: the pool of control planes. The first build of the servers takes minutes. */
import { delimiter } from 'node:path';

import { connectCluster, installGatehouse } from './cluster.ts';
import { controlPlanePrograms } from './go-programs.ts';
import { startPool } from './control-plane-pool.ts';
import { controlPlaneOn } from './control-plane.ts';

export async function setup(): Promise<() => Promise<void>> {
  const programs = await controlPlanePrograms();
  process.env.PATH = `${programs}${delimiter}${process.env.PATH ?? ''}`; // for kubectl of the same release; workers inherit it
  return await startPool(programs, async (plane) => {
    const cluster = await connectCluster(await controlPlaneOn(plane));
    await installGatehouse(cluster);
    await cluster.stop();
  });
}

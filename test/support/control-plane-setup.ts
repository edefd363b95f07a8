/**
 * Vitest's global setup: the pool of control planes. The first build of the servers takes minutes, longer than the
 * timeout of a file.
 */
import { connectCluster, installGatehouse } from './cluster.ts';
import { findAssets } from './control-plane-assets.ts';
import { startPool } from './control-plane-pool.ts';
import { controlPlaneOn } from './control-plane.ts';

export async function setup(): Promise<() => Promise<void>> {
  return await startPool(await findAssets(), async (plane) => {
    const cluster = await connectCluster(await controlPlaneOn(plane));
    await installGatehouse(cluster);
    await cluster.stop();
  });
}

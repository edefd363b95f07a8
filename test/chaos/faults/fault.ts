/** One thing that goes wrong while the load goes on. */
import type { Scene } from '../scene.ts';

export interface Fault {
  /** Stands in the table, and `--only` looks for a part of it. */
  readonly name: string;
  /** Gives how long it took until all was well again, in milliseconds: what that means, each fault says. */
  readonly run: (scene: Scene) => Promise<number>;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

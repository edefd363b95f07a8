/** A fault that occurs under load. */
import type { Arrangement } from '../../support/gatehouse.ts';
import type { Scene } from '../scene.ts';

export interface Fault {
  /** Appears in the table. `--only` selects names that contain a text. */
  readonly name: string;
  /** Default: both. */
  readonly arrangement?: Arrangement;
  /** Injects the fault and returns the recovery time in milliseconds. Each fault documents what it measures. */
  readonly run: (scene: Scene) => Promise<number>;
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Vitest's global setup: the first build of Velero takes minutes, longer than the timeout of a test. */
import { programFolder } from './go-programs.ts';

export async function setup(): Promise<void> {
  await programFolder('velero');
}

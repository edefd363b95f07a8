/** Vitest's global setup: the first build of the tools takes minutes, longer than the timeout of a test. */
import { programFolder } from './go-programs.ts';

export async function setup(): Promise<void> {
  await programFolder('tools').catch((error: unknown) => {
    console.warn('tests that need Helm, promtool or kstatus will fail:', error);
  });
}

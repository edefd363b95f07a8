/** Finds etcd, kube-apiserver and kube-controller-manager. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * The folder that scripts/envtest.sh prints.
 *
 * @throws Error with the installation hint of the script if it finds no control plane
 */
export async function findAssets(): Promise<string> {
  const script = join(import.meta.dirname, '..', '..', 'scripts', 'envtest.sh');
  try {
    const { stdout } = await run(script, { maxBuffer: 64 * 2 ** 20 }); // a build prints a lot on stderr
    return stdout.trim();
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(stderr.trim() || 'scripts/envtest.sh failed', { cause: error });
  }
}

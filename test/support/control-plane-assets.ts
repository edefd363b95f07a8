/** Where etcd, kube-apiserver and kube-controller-manager are. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * The folder that scripts/envtest.sh prints.
 *
 * @throws Error with what the script says is to be installed when there is no control plane to be had.
 */
export async function findAssets(): Promise<string> {
  const script = join(import.meta.dirname, '..', '..', 'scripts', 'envtest.sh');
  try {
    const { stdout } = await run(script, { maxBuffer: 64 * 2 ** 20 }); // a build prints much on stderr
    return stdout.trim();
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(stderr.trim() || 'scripts/envtest.sh failed', { cause: error });
  }
}

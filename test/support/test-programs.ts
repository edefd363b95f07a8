/** The programs that tests start, built from the Go modules in test/go. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * The folder that scripts/test-programs.sh prints. The first call may build it, which takes minutes.
 *
 * @throws Error that says what to install if the programs cannot be built
 */
export async function testPrograms(name: 'newest' | 'oldest' | 'tools'): Promise<string> {
  const script = join(import.meta.dirname, '..', '..', 'scripts', 'test-programs.sh');
  try {
    const { stdout } = await run(script, [name], { maxBuffer: 64 * 2 ** 20 }); // a build prints a lot on stderr
    return stdout.trim();
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(stderr.trim() || 'scripts/test-programs.sh failed', { cause: error });
  }
}

/** @returns the folder with etcd, kube-apiserver and kube-controller-manager of the Kubernetes release under test */
export const controlPlanePrograms = (): Promise<string> =>
  testPrograms(process.env.GATEHOUSE_KUBERNETES === 'oldest' ? 'oldest' : 'newest');

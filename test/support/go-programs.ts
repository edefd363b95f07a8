/** Programs that tests start, built from the Go modules in test/go. */
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, '..', '..', 'scripts', 'test-programs.sh');

const folders = new Map<string, Promise<string>>();

/**
 * The folder of programs. Without Go's cache, the first call builds for minutes.
 *
 * @throws Error with the script's advice if the programs cannot be built
 */
function programFolder(name: 'newest' | 'oldest' | 'tools'): Promise<string> {
  const folder = folders.get(name) ?? build(name);
  folders.set(name, folder);
  return folder;
}

async function build(name: string): Promise<string> {
  try {
    const { stdout } = await run(SCRIPT, [name], { maxBuffer: 64 * 2 ** 20 }); // a build prints a lot on stderr
    return stdout.trim();
  } catch (error) {
    const stderr = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    throw new Error(stderr.trim() || 'scripts/test-programs.sh failed', { cause: error });
  }
}

/** The folder with etcd, kube-apiserver and kube-controller-manager of the Kubernetes release under test. */
export const controlPlanePrograms = (): Promise<string> =>
  programFolder(process.env.GATEHOUSE_KUBERNETES === 'oldest' ? 'oldest' : 'newest');

/**
 * Runs one of the `tools` with this standard input. Returns what it prints.
 *
 * @throws Error with all that the program has printed, if it fails
 */
export async function runTool(name: string, args: readonly string[], input = ''): Promise<string> {
  const child = spawn(join(await programFolder('tools'), name), args, { stdio: 'pipe' });
  child.stdin.on('error', () => undefined); // a program may end before it has read everything
  child.stdin.end(input);
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  const [printed, complaints, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0)
    throw new Error(`${name} ${args.join(' ')} failed (${String(code)}): ${complaints}${printed}`);
  return printed;
}

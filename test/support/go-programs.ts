/** Programs that tests start, built from the Go modules in test/go. */
import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, '..', '..', 'scripts', 'test-programs.sh');

const folders = new Map<string, Promise<string>>();

/**
 * The path of a program. Without Go's cache, the first call builds for minutes.
 *
 * @throws Error with the script's advice if the programs cannot be built
 */
export async function goProgram(module: 'tools', name: string): Promise<string> {
  const folder = folders.get(module) ?? run(SCRIPT, [module]).then(({ stdout }) => stdout.trim());
  folders.set(module, folder);
  return join(await folder, name);
}

/**
 * Runs a program of the module `tools` with this standard input. Returns what it prints.
 *
 * @throws Error with all that the program has printed, if it fails
 */
export async function runTool(name: string, args: readonly string[], input = ''): Promise<string> {
  const child = spawn(await goProgram('tools', name), args, { stdio: 'pipe' });
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

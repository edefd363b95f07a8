/** Programs that tests start, built from the Go modules in test/go. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { outputOf } from './processes.ts';

const ROOT = join(import.meta.dirname, '..', '..');

type Programs = 'newest' | 'oldest' | 'node' | 'velero' | 'tools' | 'cel-newest' | 'cel-oldest';

const folders = new Map<string, Promise<string>>();

/** The folder of programs. Without Go's cache, the first call builds for minutes. @throws Error with advice */
export function programFolder(name: Programs): Promise<string> {
  const folder = folders.get(name) ?? build(name);
  folders.set(name, folder);
  return folder;
}

async function build(name: Programs): Promise<string> {
  const { code, printed, complaints } = await outputOf(join(ROOT, 'scripts', 'test-programs.sh'), [name], {
    isShown: true,
  });
  if (code !== 0) throw new Error(complaints.trim() || 'scripts/test-programs.sh failed');
  return printed.trim();
}

/** Which Kubernetes is under test. @throws Error when GATEHOUSE_KUBERNETES is neither `newest` nor `oldest` */
function releaseUnderTest(): 'newest' | 'oldest' {
  const { GATEHOUSE_KUBERNETES: release = 'newest' } = process.env;
  if (release !== 'newest' && release !== 'oldest')
    throw new Error(`GATEHOUSE_KUBERNETES is ${release}; give newest or oldest`);
  return release;
}

export const controlPlanePrograms = async (): Promise<string> => await programFolder(releaseUnderTest());

/** The version of the newest Kubernetes, as its API server says it: the recordings in test/data are of this one. */
export const NEWEST_RELEASE: string =
  /^\tk8s\.io\/kubernetes (?<version>v\S+)/m.exec(
    readFileSync(join(ROOT, 'test', 'go', 'kubernetes-newest', 'go.mod'), 'utf8'),
  )?.groups?.version ?? '';

/** @throws Error when this is not the release of the recordings */
export function refuseToRecord(gitVersion: string): void {
  if (gitVersion !== NEWEST_RELEASE)
    throw new Error(
      `the recordings are of ${NEWEST_RELEASE}, and this API server is ${gitVersion}: unset KUBEBUILDER_ASSETS and GATEHOUSE_KUBERNETES`,
    );
}

/** Runs one of the `tools`. @returns what it prints. @throws Error with all that it has printed, if it fails */
export async function runTool(name: string, args: readonly string[], input = ''): Promise<string> {
  const program = join(await programFolder('tools'), name);
  const { code, printed, complaints } = await outputOf(program, args, { input });
  if (code !== 0)
    throw new Error(`${name} ${args.join(' ')} failed (${String(code)}): ${complaints}${printed}`);
  return printed;
}

/** Judges objects as Flux, Helm and kpt do: with kstatus itself. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import { runTool } from './go-programs.ts';

export type KStatus = 'Current' | 'Failed' | 'InProgress' | 'Terminating';

export async function kstatus(objects: readonly KubeObject[]): Promise<readonly KStatus[]> {
  const lines = objects.map((object) => JSON.stringify(object));
  const printed = await runTool('kstatus', [], lines.join('\n'));
  return printed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { readonly status: KStatus }).status); // test/go/tools/kstatus
}

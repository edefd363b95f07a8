/** Overlays like those of users, and what kubectl makes of them. */
import { execFile } from 'node:child_process';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';

const run = promisify(execFile);
const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

export interface Kustomization {
  readonly components?: readonly string[];
  readonly patches?: readonly object[];
  readonly namespace?: string;
}

/** Gives the container of all Deployments, or of this one, one more argument. */
export const argumentPatch = (argument: string, name?: string) => ({
  target: { kind: 'Deployment', name },
  patch: JSON.stringify([{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value: argument }]),
});

/** A folder that extends one of deploy/, while `work` runs. Kustomize requires relative paths. */
export async function withKustomization<T>(
  base: string,
  { components = [], ...others }: Kustomization,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  using own = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-overlay-'));
  const inDeploy = (path: string) => relative(own.path, join(DEPLOY, path));
  const kustomization = {
    resources: [inDeploy(base)],
    components: components.map((name) => inDeploy(join('components', name))),
    ...others,
  };
  writeFileSync(join(own.path, 'kustomization.yaml'), JSON.stringify(kustomization)); // JSON is YAML
  return await work(own.path);
}

export const parseManifests = (text: string): readonly KubeObject[] =>
  parseAllDocuments(text).map((document) => document.toJS() as KubeObject); // our own manifests

/** What `kubectl kustomize` makes of a folder of deploy/ with components. */
export const kustomized = (base: string, kustomization: Kustomization = {}): Promise<readonly KubeObject[]> =>
  withKustomization(base, kustomization, async (folder) =>
    parseManifests((await run('kubectl', ['kustomize', folder])).stdout),
  );

/** The lines of kubectl about a server-side apply of these objects, as a dry run. */
export async function dryRunApply(kubeconfig: string, items: readonly object[]): Promise<readonly string[]> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-objects-'));
  const file = join(folder.path, 'all.json');
  writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  const apply = ['apply', '--server-side', '--force-conflicts', '--dry-run=server', '-f', file];
  const { stdout } = await run('kubectl', ['--kubeconfig', kubeconfig, ...apply]);
  return stdout.split('\n').filter((line) => line !== '');
}

/** Overlays like those of users, and what kubectl makes of them. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

/** A folder that extends one of deploy/, while `work` runs. Kustomize requires relative paths. */
export async function withKustomization<T>(
  base: string,
  { components = [], ...others }: Kustomization,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const own = mkdtempSync(join(tmpdir(), 'gatehouse-overlay-'));
  try {
    const inDeploy = (path: string) => relative(own, join(DEPLOY, path));
    const kustomization = {
      resources: [inDeploy(base)],
      components: components.map((name) => inDeploy(join('components', name))),
      ...others,
    };
    writeFileSync(join(own, 'kustomization.yaml'), JSON.stringify(kustomization)); // JSON is YAML
    return await work(own);
  } finally {
    rmSync(own, { recursive: true });
  }
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
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-objects-'));
  try {
    const file = join(folder, 'all.json');
    writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    const apply = ['apply', '--server-side', '--force-conflicts', '--dry-run=server', '-f', file];
    const { stdout } = await run('kubectl', ['--kubeconfig', kubeconfig, ...apply]);
    return stdout.split('\n').filter((line) => line !== '');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

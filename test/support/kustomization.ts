import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

interface Kustomization {
  readonly components?: readonly string[];
  readonly namespace?: string;
  readonly patches?: readonly object[];
}

/** Runs `work` with the folder of a user's kustomization: a folder of deploy/ with components and other fields. */
export async function withKustomization<T>(
  base: string,
  { components = [], ...fields }: Kustomization,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const own = mkdtempSync(join(tmpdir(), 'gatehouse-overlay-'));
  const inDeploy = (path: string) => relative(own, join(DEPLOY, path));
  const parts = components.map((name) => inDeploy(join('components', name)));
  const kustomization = { ...fields, resources: [inDeploy(base)], components: parts };
  try {
    writeFileSync(join(own, 'kustomization.yaml'), JSON.stringify(kustomization)); // JSON is YAML
    return await work(own);
  } finally {
    rmSync(own, { recursive: true });
  }
}

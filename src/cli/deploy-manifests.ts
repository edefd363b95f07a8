import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';

import type { KubeClient } from '../kube/client.ts';
import type { Discovery } from '../kube/discovery.ts';
import type { Resource } from '../kube/object.ts';
import type { KubeObject } from '../json/kube-object.ts';

/** How long a kind that was just defined may take to be served, in milliseconds. */
const SERVED_WITHIN_MS = 10_000;

/** Every object in the YAML files of a folder, namespaces before what is in them. */
export function readManifests(folder: string): readonly KubeObject[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml')
    .flatMap((file) => parseAllDocuments(readFileSync(join(folder, file), 'utf8')))
    .map((document) => document.toJS() as KubeObject) // our own files, which a test applies with kubectl too
    .toSorted((a, b) => rank(a) - rank(b));
}

const rank = ({ kind }: KubeObject): number => (kind === 'Namespace' ? 0 : 1);

/** Server-side apply, as a person with kubectl would. What is namespaced and says nothing goes into `namespace`. */
export async function applyManifests(
  {
    client,
    discovery,
    namespace,
  }: { readonly client: KubeClient; readonly discovery: Discovery; readonly namespace: string },
  manifests: readonly KubeObject[],
): Promise<void> {
  for (const manifest of manifests) {
    const resource = await servedResource(discovery, manifest);
    const placed =
      !resource.namespaced || manifest.metadata?.namespace !== undefined
        ? manifest
        : { ...manifest, metadata: { ...manifest.metadata, namespace } };
    await client.apply(resource, placed, { fieldManager: 'kubectl', force: true });
  }
}

/** @throws Error when the kind is not served in time */
async function servedResource(
  discovery: Discovery,
  { apiVersion = '', kind = '' }: KubeObject,
): Promise<Resource> {
  const group = apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
  const plural = kind.endsWith('y') ? `${kind.slice(0, -1)}ies` : `${kind}s`;
  const wanted = { group, resource: plural.toLowerCase() };
  const deadline = performance.now() + SERVED_WITHIN_MS;
  for (;;) {
    const found = await discovery.resolve(wanted);
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`${kind} of ${apiVersion} is not served`);
    discovery.forget(wanted);
    await sleep(20);
  }
}

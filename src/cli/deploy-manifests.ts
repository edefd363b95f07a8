import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix, relative } from 'node:path';
import * as sea from 'node:sea'; // getAssetKeys is missing in Node 22
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';

import type { KubeClient } from '../kube/client.ts';
import type { Discovery } from '../kube/discovery.ts';
import type { Resource } from '../kube/object.ts';
import { isJsonObject, listIn } from '../json/json.ts';
import { splitApiVersion, type KubeObject } from '../json/kube-object.ts';

/** `deploy/` of the repository, the package or the image. The single executable contains its files as assets. */
export const DEPLOY = sea.isSea() ? 'deploy' : join(import.meta.dirname, '..', '..', 'deploy');

/** As a user types it: `deploy/…` in a clone, `node_modules/…/deploy/…` where the package is installed. */
export const shownPath = (...below: readonly string[]): string =>
  sea.isSea() ? posix.join(DEPLOY, ...below) : relative(process.cwd(), join(DEPLOY, ...below)) || '.';

export const APPLY_MANIFESTS = `kubectl apply -k ${shownPath()}`;

export const hasManifests = (folder: string): boolean => sea.isSea() || existsSync(folder);

export const readDeployFile = (path: string): string =>
  sea.isSea() ? sea.getAsset(path, 'utf8') : readFileSync(path, 'utf8');

function filesIn(folder: string): readonly string[] {
  if (!sea.isSea()) return readdirSync(folder);
  const files = sea.getAssetKeys().filter((path) => posix.dirname(path) === folder);
  if (files.length === 0) throw new Error(`the single executable does not contain ${folder}`);
  return files.map((path) => posix.basename(path));
}

const SERVED_TIMEOUT_MS = 10_000;

export function readManifests(folder: string): readonly KubeObject[] {
  return filesIn(folder)
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml')
    .flatMap((file) => parseAllDocuments(readDeployFile(join(folder, file))))
    .map((document) => document.toJS() as KubeObject) // the files of Gatehouse, which tests also apply with kubectl
    .toSorted((a, b) => rank(a) - rank(b));
}

const SINGLE_ACCOUNT = 'gatehouse';

/** `gatehouse serve` needs the permissions of both processes: its account is another subject of each binding. */
export const withSingleAccount = (manifests: readonly KubeObject[]): readonly KubeObject[] =>
  manifests.map((manifest): KubeObject => {
    const subjects = listIn(manifest, 'subjects').filter(isJsonObject);
    const first = subjects.find(({ kind }) => kind === 'ServiceAccount');
    return first === undefined
      ? manifest
      : Object.assign({}, manifest, { subjects: [...subjects, { ...first, name: SINGLE_ACCOUNT }] });
  });

const rank = ({ kind }: KubeObject): number => (kind === 'Namespace' ? 0 : 1);

/** Applies manifests like `kubectl apply --server-side`. `namespace` is the default for namespaced objects. */
export async function applyManifests(
  target: { readonly client: KubeClient; readonly discovery: Discovery; readonly namespace: string },
  manifests: readonly KubeObject[],
): Promise<void> {
  const { client, discovery, namespace } = target;
  for (const manifest of manifests) {
    const resource = await servedResource(discovery, manifest);
    const placed =
      !resource.namespaced || manifest.metadata?.namespace !== undefined
        ? manifest
        : { ...manifest, metadata: { ...manifest.metadata, namespace } };
    await client.apply(resource, placed, { fieldManager: 'kubectl', force: true });
  }
}

async function servedResource(
  discovery: Discovery,
  { apiVersion = '', kind = '' }: KubeObject,
): Promise<Resource> {
  const wanted = { ...splitApiVersion(apiVersion), kind };
  const deadline = performance.now() + SERVED_TIMEOUT_MS;
  for (;;) {
    const found = await discovery.resolveKind(wanted);
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`${kind} of ${apiVersion} is not served`);
    discovery.forget({ group: wanted.group, resource: '' });
    await sleep(20);
  }
}

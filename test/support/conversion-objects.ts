/** The kind of deploy/examples/conversion, and definitions of other kinds with conversion. */
import { join } from 'node:path';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { CONVERSION_POLICIES } from '../../src/runtime/resources.ts';
import { established, SYSTEM_NAMESPACE, type Cluster } from './cluster.ts';
import { resourceOf } from './definitions.ts';
import { isTrue, type Conditioned } from './objects.ts';

export const databases = (version: string): Resource =>
  resourceOf('infra.example.com', 'databases', 'Database', true, version);

export interface CustomObject extends KubeObject {
  readonly spec?: Record<string, unknown>;
  readonly status?: Record<string, unknown>;
}

interface Crd extends KubeObject {
  readonly spec: {
    readonly versions: readonly {
      readonly name: string;
      readonly storage: boolean;
      readonly served: boolean;
    }[];
    readonly conversion?: { readonly webhook: { readonly clientConfig: { readonly service: object } } };
  };
  readonly status?: { readonly storedVersions?: readonly string[] };
}

/** Applies the conversion example, with Gatehouse on `port`. Resolves when the policy is in force. */
export async function convertExamples(cluster: Cluster, port: number): Promise<void> {
  await cluster.apply(await defineExamples(cluster, port));
  await seeConverting(cluster, 'databases');
}

export async function defineExamples(cluster: Cluster, port: number): Promise<KubeObject> {
  const manifests = readManifests(join(import.meta.dirname, '../../deploy/examples/conversion'));
  const [definition] = manifests.filter(({ kind }) => kind === 'CustomResourceDefinition') as Crd[]; // our own file
  const policy = manifests.find(({ kind }) => kind === 'ConversionPolicy');
  if (definition === undefined || policy === undefined) throw new Error('the example is incomplete');
  await cluster.apply(atPort(definition, port));
  await established(cluster, 'databases.infra.example.com');
  return policy;
}

function atPort(definition: Crd, port: number): Crd {
  const { webhook } = definition.spec.conversion ?? {};
  const service = { ...webhook?.clientConfig.service, namespace: SYSTEM_NAMESPACE, port };
  const conversion = { ...definition.spec.conversion, webhook: { ...webhook, clientConfig: { service } } };
  return { ...definition, spec: { ...definition.spec, conversion } };
}

export const seeConverting = (cluster: Cluster, policy: string): Promise<Conditioned> =>
  cluster.see<Conditioned>(
    `ConversionPolicy ${policy} in force`,
    CONVERSION_POLICIES,
    { name: policy },
    (object) => isTrue('Ready')(object) && isTrue('Installed')(object),
  );

export async function storeIn(cluster: Cluster, definition: string, version: string): Promise<void> {
  const live = await cluster.admin.get<Crd>(customResourceDefinitions, { name: definition });
  const versions = (live?.spec.versions ?? []).map((one) => ({ ...one, storage: one.name === version }));
  await cluster.admin.patchMerge(customResourceDefinitions, { name: definition }, { spec: { versions } });
  await cluster.see<Crd>(
    `${definition} stores ${version}`,
    customResourceDefinitions,
    { name: definition },
    ({ status }) => status?.storedVersions?.includes(version) ?? false,
  );
}

export async function failureOf(attempt: () => Promise<unknown>): Promise<string> {
  try {
    await attempt();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
}

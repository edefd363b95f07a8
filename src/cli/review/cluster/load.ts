/** Loads what a review of a cluster needs: its policies, or others from files, and the objects to which they refer. */
import type { CompiledPolicy } from '../../../admission/policy/compiled-policy.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import {
  groupResourceName,
  type GroupResource,
  objectKey,
  type ObjectRef,
  type KubeObject,
} from '../../../json/kube-object.ts';
import { governed, namedKinds } from '../../../runtime/policies/policies.ts';
import { isNotFound } from '../../../kube/api-error.ts';
import { createStorage } from '../../../sandbox/machinery/storage/storage.ts';
import { createCrdSchemas } from '../../../runtime/policies/crd-schemas.ts';
import { ADMISSION_POLICIES } from '../../../runtime/resources.ts';
import type { UserCluster } from '../../connect.ts';
import { hasMatchConditions } from '../../../runtime/context.ts';
import { readObjects, refuse, type ReadOptions } from '../input.ts';
import { createKinds } from '../kinds.ts';
import { compileNamed, readPolicies, type NamedPolicy } from '../policies.ts';
import type { World } from '../../../admission/policy/world.ts';
import { createStore, type Store } from '../../../kube/store.ts';
import { createWorld } from '../../../runtime/policies/world.ts';

export interface ClusterPolicies {
  readonly policies: readonly CompiledPolicy[];
  /** Policies of the cluster that cannot be enforced, with the reason. */
  readonly broken: readonly { readonly name: string; readonly message: string }[];
}

/**
 * @param given files with policies; undefined: the policies of the cluster
 * @param crds that the cluster may lack
 * @throws UnusableInput when a policy in a file is invalid, or there are no policies
 */
export async function loadClusterPolicies(
  cluster: UserCluster,
  { given, crds }: { readonly given: readonly string[] | undefined; readonly crds: readonly string[] },
  options: ReadOptions,
  ownNamespace: string,
  signal: AbortSignal,
): Promise<ClusterPolicies> {
  const objects = readObjects([...(given ?? []), ...crds], options);
  const kinds = createKinds(objects, createStorage());
  const { policies: named, problems } =
    given === undefined
      ? { policies: await storedPolicies(cluster, signal), problems: [] }
      : readPolicies(objects, kinds.registry);
  refuse(named.length + problems.length === 0 ? [noneThere(given, cluster)] : []);
  const served = await resolveAll(named, cluster, signal);
  const schemas = await schemasOf(named, cluster, signal);
  const results = named.map(({ label, policy }) => ({
    name: policy.metadata.name ?? '',
    result: compileNamed(
      { label, policy },
      {
        ownNamespace,
        matchConditions: hasMatchConditions(cluster.version),
        resolve: (kind) => served.get(groupResourceName(kind)) ?? kinds.resolve(kind),
        schemas: (kind, versions) => schemas.get(schemaKey(kind, versions)) ?? kinds.schemas(kind, versions),
      },
    ),
  }));
  const broken = results.flatMap(({ name, result }) =>
    'problems' in result ? [{ name, messages: result.problems }] : [],
  );
  if (given !== undefined) refuse([...problems, ...broken.flatMap(({ messages }) => messages)]);
  return {
    policies: results.flatMap(({ result }) => ('policy' in result ? [result.policy] : [])),
    broken: broken.map(({ name, messages }) => ({ name, message: messages.join('; ') })),
  };
}

function noneThere(given: readonly string[] | undefined, { server }: UserCluster): string {
  return given === undefined
    ? `${server} has no AdmissionPolicies: pass policies with -p`
    : `${given.join(', ')}: no AdmissionPolicy found`;
}

async function storedPolicies({ client }: UserCluster, signal: AbortSignal): Promise<readonly NamedPolicy[]> {
  try {
    const { items } = await client.listAll<AdmissionPolicy>(ADMISSION_POLICIES, { signal });
    return items.map((policy) => ({ label: `AdmissionPolicy ${policy.metadata.name ?? ''}`, policy }));
  } catch (error) {
    // The CRD is not installed.
    if (isNotFound(error)) return [];
    throw error;
  }
}

type Served = ReadonlyMap<string, GroupResource & { readonly kind: string; readonly namespaced: boolean }>;

async function resolveAll(
  policies: readonly NamedPolicy[],
  { discovery }: UserCluster,
  signal: AbortSignal,
): Promise<Served> {
  const wanted = new Map(
    policies
      .flatMap(({ policy: { spec } }) => [...namedKinds(spec), ...governed(spec)])
      .map((kind) => [groupResourceName(kind), kind]),
  );
  const found = await Promise.all([...wanted.values()].map((kind) => discovery.resolve(kind, signal)));
  return new Map(found.flatMap((kind) => (kind === undefined ? [] : [[groupResourceName(kind), kind]])));
}

/** The schemas of all governed custom kinds, in the versions that the policies match. */
async function schemasOf(
  policies: readonly NamedPolicy[],
  { client }: UserCluster,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly JsonObject[]>> {
  const read = createCrdSchemas(client, () => performance.now());
  const found = new Map<string, readonly JsonObject[]>();
  for (const { policy } of policies) {
    const { match } = policy.spec;
    const versions = match.apiVersions ?? ['*'];
    for (const kind of governed({ match })) {
      const schemas = await read(kind, versions, signal);
      if (schemas !== undefined) found.set(schemaKey(kind, versions), schemas);
    }
  }
  return found;
}

const schemaKey = (kind: GroupResource, versions: readonly string[]): string =>
  JSON.stringify([groupResourceName(kind), versions]);

/** The objects to which policies refer, listed once. @throws when a kind cannot be read */
export async function loadWorld(
  { client, discovery }: UserCluster,
  policies: readonly CompiledPolicy[],
  signal: AbortSignal,
): Promise<World> {
  const stores = new Map<string, Store<KubeObject>>();
  const targets = Map.groupBy(
    policies.flatMap((policy) => policy.targets),
    groupResourceName,
  );
  for (const [name, same] of targets) {
    const [target] = same;
    const kind = target === undefined ? undefined : await discovery.resolve(target, signal);
    if (kind === undefined) continue; // not served: each reference is then read live and not found
    const store = createStore<KubeObject>();
    const metadataOnly = !same.some(({ whole }) => whole);
    for await (const { items } of client.pages<KubeObject>(kind, { metadataOnly, signal })) {
      for (const item of items) store.set(objectKey(item.metadata ?? {}), item);
    }
    stores.set(name, store);
  }
  const world = createWorld({
    client,
    discovery,
    targets: { store: (target) => stores.get(groupResourceName(target)) },
    restoreEvidence: () => Promise.resolve(undefined),
  });
  return { ...world, confirm: once(world.confirm), read: once(world.read) };
}

type LiveRead = World['read'];

/** Memoises live reads: thousands of objects may refer to the same target. */
function once(read: LiveRead): LiveRead {
  const answers = new Map<string, ReturnType<LiveRead>>();
  return (ref: ObjectRef, signal, versions = []) => {
    const key = JSON.stringify([groupResourceName(ref), objectKey(ref), versions]);
    const known = answers.get(key) ?? read(ref, signal, versions);
    answers.set(key, known);
    return known;
  };
}

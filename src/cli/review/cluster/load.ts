/** Loads what a review of a cluster needs: its policies, or others from files, and the objects to which they refer. */
import type { CompiledPolicy, Grants } from '../../../admission/policy/compiled-policy.ts';
import { grantsIn } from '../../../admission/policy/exceptions/exceptions.ts';
import { createReadGrants } from '../../../runtime/policies/policy-exceptions.ts';
import type { KindVersion } from '../../../admission/policy/match/subresources.ts';
import { uniqueBy } from '../../../json/json.ts';
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import {
  type GroupResource,
  groupResourceName,
  keyOf,
  type KubeObject,
  objectKey,
  type ObjectRef,
} from '../../../json/kube-object.ts';
import { createCrdSchemas, governed, namedKinds } from '../../../runtime/policies/policy-kinds.ts';
import { isNotFound } from '../../../kube/api-error.ts';
import { createStorage } from '../../../machinery/storage/storage.ts';
import { ADMISSION_POLICIES } from '../../../runtime/resources.ts';
import { NEVER, type UserCluster } from '../../connect.ts';
import type { Resource } from '../../../kube/object.ts';
import type { ReviewFlags } from '../flags.ts';
import { readObjects, type ReadOptions, refuse } from '../input.ts';
import { createKinds } from '../kinds.ts';
import { compileLabelled, type Labelled, readOwn } from '../policies.ts';
import type { AuditWorld, ObjectReads } from '../../../admission/policy/world.ts';
import { createStore, type Store } from '../../../kube/store.ts';
import { createWorld } from '../../../runtime/policies/world.ts';

/** The policies in files, or in the cluster. @param versionOf selects a version of a stored policy */
export async function loadClusterPolicies(
  cluster: UserCluster,
  { policies: given, crds = [] }: Pick<ReviewFlags, 'policies' | 'crds'>,
  options: ReadOptions,
  ownNamespace: string,
  versionOf: (policy: AdmissionPolicy) => AdmissionPolicy = (policy) => policy,
) {
  const objects = readObjects([...(given ?? []), ...crds], options);
  const kinds = createKinds(objects, createStorage());
  const { found, problems } =
    given === undefined
      ? { found: await storedPolicies(cluster, versionOf), problems: [] }
      : readOwn<AdmissionPolicy>('AdmissionPolicy', objects, kinds.registry);
  if (found.length + problems.length === 0)
    refuse([
      given === undefined
        ? `${cluster.server} does not contain AdmissionPolicies: pass policies with -p`
        : `${given.join(', ')}: no AdmissionPolicy found`,
    ]);
  const served = await resolveAll(found, cluster);
  const schemas = await schemasOf(found, cluster);
  const grants = await storedGrants(found, cluster);
  const groups = await groupsOf(found, cluster);
  const compiled = found.map((policy) => ({
    name: policy.object.metadata.name ?? '',
    ...compileLabelled(policy, {
      ownNamespace,
      grants,
      resolve: (kind) => served.get(groupResourceName(kind)) ?? kinds.resolve(kind),
      schemas: (kind, versions) => schemas.get(schemaKey(kind, versions)) ?? kinds.schemas(kind, versions),
      groups: [...groups.keys(), ...kinds.groups],
      servedIn: (group) => {
        const inCluster = groups.get(group);
        return inCluster && [...inCluster, ...(kinds.servedIn(group) ?? [])];
      },
    }),
  }));
  if (given !== undefined) refuse([...problems, ...compiled.flatMap((one) => one.problems)]);
  return {
    policies: compiled.flatMap((one) => one.found),
    broken: compiled
      .filter((one) => one.found.length === 0)
      .map((one) => ({ name: one.name, message: one.problems.join('; ') })),
  };
}

type Policies = readonly Labelled<AdmissionPolicy>[];

async function storedPolicies(
  { client }: UserCluster,
  versionOf: (policy: AdmissionPolicy) => AdmissionPolicy,
): Promise<Policies> {
  try {
    const { items } = await client.listAll<AdmissionPolicy>(ADMISSION_POLICIES);
    return items.map((object) => {
      const label = `AdmissionPolicy ${object.metadata.name ?? ''}`;
      return { label, labelOf: () => label, object: versionOf(object) };
    });
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

async function storedGrants(policies: Policies, { client }: UserCluster): Promise<Grants> {
  const accept = policies.some(({ object }) => object.spec.policyExceptions === 'Accept');
  return accept ? await createReadGrants(client)(undefined, NEVER) : grantsIn([]);
}

async function resolveAll(policies: Policies, { discovery }: UserCluster) {
  const wanted = policies.flatMap(({ object: { spec } }) => [...namedKinds(spec), ...governed(spec)]);
  const found = await Promise.all(uniqueBy(wanted, groupResourceName).map((kind) => discovery.resolve(kind)));
  return new Map(
    found.filter((kind) => kind !== undefined).map((kind) => [groupResourceName(kind), kind] as const),
  );
}

async function groupsOf(policies: Policies, { discovery }: UserCluster) {
  const groups = new Set(policies.flatMap(({ object }) => object.spec.match.apiGroups));
  const found = new Map<string, readonly Resource[]>();
  for (const group of groups) {
    if (group.includes('*')) continue;
    const served = await discovery.servedIn(group).catch(() => undefined);
    if (served !== undefined) found.set(group, served);
  }
  return found;
}

async function schemasOf(policies: Policies, { client }: UserCluster) {
  const read = createCrdSchemas(client, () => performance.now());
  const found = new Map<string, readonly KindVersion[]>();
  for (const { object: policy } of policies) {
    const { match } = policy.spec;
    const versions = match.apiVersions ?? ['*'];
    for (const kind of governed({ match })) {
      const schemas = await read(kind, versions, NEVER);
      if (schemas.length > 0) found.set(schemaKey(kind, versions), schemas);
    }
  }
  return found;
}

const schemaKey = (kind: GroupResource, versions: readonly string[]): string =>
  JSON.stringify([groupResourceName(kind), versions]);

export async function loadWorld(
  { client, discovery }: UserCluster,
  policies: readonly CompiledPolicy[],
): Promise<AuditWorld> {
  const stores = new Map<string, Store<KubeObject>>();
  const targets = Map.groupBy(
    policies.flatMap((policy) => policy.targets),
    groupResourceName,
  );
  for (const [name, same] of targets) {
    const [target] = same;
    const kind = target === undefined ? undefined : await discovery.resolve(target);
    if (kind === undefined) continue; // not served: each reference is then read live and not found
    const store = createStore<KubeObject>();
    const metadataOnly = !same.some(({ whole }) => whole);
    for await (const { items } of client.pages<KubeObject>(kind, { metadataOnly })) {
      for (const item of items) store.set(keyOf(item), item);
    }
    stores.set(name, store);
  }
  const targetStores = { store: (target: GroupResource) => stores.get(groupResourceName(target)) };
  const world = createWorld(client, client, discovery, targetStores, {
    // The review compares the unique values of all objects itself.
    claims: { read: () => Promise.resolve(undefined) },
    governed: { holders: () => [] },
  });
  return { ...world, confirm: once(world.confirm), read: once(world.read) };
}

/** Memoises live reads: thousands of objects may refer to the same target. */
function once(read: ObjectReads['read']): ObjectReads['read'] {
  const answers = new Map<string, ReturnType<ObjectReads['read']>>();
  return (ref: ObjectRef, signal, versions = []) => {
    const key = JSON.stringify([groupResourceName(ref), objectKey(ref), versions]);
    const known = answers.get(key) ?? read(ref, signal, versions);
    answers.set(key, known);
    return known;
  };
}

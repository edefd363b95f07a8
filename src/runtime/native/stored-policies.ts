import { INSTALLED_SELECTOR, isAsWanted, isInstalledByUs } from '../../admission/native/installed-policy.ts';
import { isMutating } from '../../admission/native/native-policy.ts';
import { messageOf } from '../../json/abort.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { insteadOf, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import {
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import type { Installation } from '../webhooks/installation.ts';
import { refusable, WriteRefused } from '../write-refused.ts';

export interface StoredPoliciesOptions {
  readonly discovery: Pick<Discovery, 'servedIn'>;
  readonly client: Pick<KubeClient, 'listAll' | 'get' | 'create' | 'replace' | 'delete'>;
  readonly installation: Pick<Installation, 'obstacle'>;
  readonly log: Log;
}

interface Kinds {
  readonly policy: Resource;
  readonly binding: Resource;
}

export const VALIDATING: Kinds = {
  policy: validatingAdmissionPolicies,
  binding: validatingAdmissionPolicyBindings,
};
export const MUTATING: Kinds = {
  policy: mutatingAdmissionPolicies,
  binding: mutatingAdmissionPolicyBindings,
};

const kindsOf = (name: string): Kinds => (isMutating(name) ? MUTATING : VALIDATING);

export interface StoredPair {
  readonly policy: KubeObject | undefined;
  readonly binding: KubeObject | undefined;
}

const UNSERVED = 'the API server serves no ValidatingAdmissionPolicies';
const UNSERVED_MUTATING =
  'the API server serves no MutatingAdmissionPolicies: it does from Kubernetes 1.36 on';

/** @throws WriteRefused if it lacks permission to list ValidatingAdmissionPolicies */
export async function readStored(options: StoredPoliciesOptions, signal: AbortSignal) {
  const served = await options.discovery.servedIn(VALIDATING.policy.group, signal);
  const read = async (kinds: Kinds): Promise<ReadonlyMap<string, StoredPair> | undefined> => {
    const isServed = ({ version, resource }: Resource) =>
      served.some((one) => one.version === version && one.resource === resource);
    if (!isServed(kinds.policy) || !isServed(kinds.binding)) return undefined;
    // Discovery is cached.
    return await listInstalled(kinds, options, signal).catch(insteadOf(isNotFound, undefined));
  };
  const validating = await read(VALIDATING);
  if (validating === undefined) return UNSERVED;
  try {
    const mutating = await read(MUTATING);
    return {
      pairs: new Map([...validating, ...(mutating ?? [])]),
      mutatingProblem: mutating === undefined ? UNSERVED_MUTATING : undefined,
    };
  } catch (error) {
    // A role of an older version does not permit these kinds.
    if (error instanceof WriteRefused) return { pairs: validating, mutatingProblem: error.message };
    throw error;
  }
}

async function listInstalled(
  kinds: Kinds,
  { client }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, StoredPair>> {
  const list = async (kind: Resource) => {
    const { items } = await client.listAll<KubeObject>(kind, { labelSelector: INSTALLED_SELECTOR, signal });
    const ours = items.filter((object) => isInstalledByUs(object));
    return new Map(ours.map((object) => [object.metadata?.name ?? '', object]));
  };
  return await refusable(async () => {
    const [policies, bindings] = [await list(kinds.policy), await list(kinds.binding)];
    const names = new Set([...policies.keys(), ...bindings.keys()]);
    const partsOf = (name: string) => ({ policy: policies.get(name), binding: bindings.get(name) });
    return new Map([...names].map((name) => [name, partsOf(name)]));
  });
}

/** Another client made an object with our name, such as `gatehouse manifests --vap` in a GitOps repository. */
export class ForeignObject extends Error {}

export class BeingRemoved extends Error {}

/** Writes the policy first, because a binding without a policy is harmless. @throws ForeignObject, BeingRemoved, WriteRefused */
export async function install(
  wanted: { readonly policy: KubeObject; readonly binding: KubeObject },
  stored: StoredPair | undefined,
  options: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<{ readonly policy: KubeObject; readonly binding: KubeObject }> {
  const kinds = kindsOf(wanted.policy.metadata?.name ?? '');
  return {
    policy: await ensure(kinds.policy, wanted.policy, stored?.policy, options, signal),
    binding: await ensure(kinds.binding, wanted.binding, stored?.binding, options, signal),
  };
}

async function ensure(
  kind: Resource,
  wanted: KubeObject,
  known: KubeObject | undefined,
  { client, installation, log }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<KubeObject> {
  const name = wanted.metadata?.name ?? '';
  const stored = known ?? (await client.get<KubeObject>(kind, { name }, { signal }));
  if (stored !== undefined && !isInstalledByUs(stored, wanted))
    throw new ForeignObject(`there is a ${kind.kind} ${name} that Gatehouse has not installed`);
  if (stored !== undefined && isAsWanted(stored, wanted)) return stored;
  const obstacle = stored === undefined ? await installation.obstacle(signal) : undefined;
  if (obstacle !== undefined) throw new BeingRemoved(obstacle);
  const written = await refusable(async () => {
    if (stored === undefined) return await client.create(kind, wanted, { signal });
    const labels = { ...stored.metadata?.labels, ...wanted.metadata?.labels };
    const metadata = { ...stored.metadata, labels, ownerReferences: wanted.metadata?.ownerReferences ?? [] };
    return await client.replace(kind, { ...stored, ...wanted, metadata }, { signal });
  });
  log.info({ kind: kind.kind, name }, 'wrote a compiled policy');
  return written;
}

/** Deletes the binding first, which disables the policy. */
export async function remove(
  name: string,
  { policy, binding }: StoredPair,
  { client, log }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<void> {
  const kinds = kindsOf(name);
  for (const [kind, object] of [
    [kinds.binding, binding],
    [kinds.policy, policy],
  ] as const) {
    if (object === undefined) continue;
    const { uid, resourceVersion } = object.metadata ?? {};
    try {
      await client.delete(kind, { name }, { preconditions: { uid, resourceVersion }, signal });
      log.info({ kind: kind.kind, name }, 'removed a compiled policy');
    } catch (error) {
      if (!isConflict(error)) throw error;
      log.debug({ kind: kind.kind, name, reason: messageOf(error) }, 'a compiled policy has just changed');
    }
  }
}

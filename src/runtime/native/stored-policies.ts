/** The compiled policies in the API server, as the leader reads and writes them. */
import { INSTALLED_SELECTOR, isAsWanted, isInstalledByUs } from '../../admission/native/installed-policy.ts';
import { messageOf } from '../../json/error-message.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import {
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
} from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { refusable } from '../write-refused.ts';

export interface StoredPoliciesOptions {
  readonly client: Pick<KubeClient, 'listAll' | 'get' | 'create' | 'replace' | 'delete'>;
  readonly log: Log;
}

/** A ValidatingAdmissionPolicy and its binding, as stored. */
export interface StoredPair {
  readonly policy: KubeObject | undefined;
  readonly binding: KubeObject | undefined;
}

/** The manifest that grants all permissions for compiled policies. */
const ROLE = 'deploy/components/compile-policies/role.yaml';

/** All pairs that Gatehouse has installed, by name. @throws WriteRefused if it may not list them */
export async function listInstalled(
  { client }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, StoredPair>> {
  const list = async (kind: Resource) => {
    const { items } = await client.listAll<KubeObject>(kind, { labelSelector: INSTALLED_SELECTOR, signal });
    return new Map(items.filter(isInstalledByUs).map((object) => [object.metadata?.name ?? '', object]));
  };
  return await refusable(ROLE, async () => {
    const [policies, bindings] = [await list(POLICIES), await list(BINDINGS)];
    const names = new Set([...policies.keys(), ...bindings.keys()]);
    return new Map(
      [...names].map((name) => [name, { policy: policies.get(name), binding: bindings.get(name) }] as const),
    );
  });
}

/** Another client made an object with our name, such as `gatehouse manifests --vap` in a GitOps repository. */
export class ForeignObject extends Error {}

/** The policy first: without it, its binding has no effect. @throws ForeignObject, WriteRefused */
export async function install(
  wanted: { readonly policy: KubeObject; readonly binding: KubeObject },
  stored: StoredPair | undefined,
  options: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<{ readonly policy: KubeObject; readonly binding: KubeObject }> {
  return {
    policy: await ensure(POLICIES, wanted.policy, stored?.policy, options, signal),
    binding: await ensure(BINDINGS, wanted.binding, stored?.binding, options, signal),
  };
}

/** @returns the object as the API server stores it */
async function ensure(
  kind: Resource,
  wanted: KubeObject,
  known: KubeObject | undefined,
  { client, log }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<KubeObject> {
  const name = wanted.metadata?.name ?? '';
  const stored = known ?? (await client.get<KubeObject>(kind, { name }, { signal }));
  if (stored !== undefined && !isInstalledByUs(stored))
    throw new ForeignObject(`there is a ${kind.kind} ${name} that Gatehouse has not installed`);
  if (stored !== undefined && isAsWanted(stored, wanted)) return stored;
  const written = await refusable(ROLE, async () => {
    if (stored === undefined) return await client.create(kind, wanted, { signal });
    const labels = { ...stored.metadata?.labels, ...wanted.metadata?.labels };
    const { ownerReferences = [] } = wanted.metadata ?? {};
    const metadata = { ...stored.metadata, labels, ownerReferences };
    return await client.replace(kind, { ...stored, ...wanted, metadata }, { signal });
  });
  log.info({ kind: kind.kind, name }, 'wrote a compiled policy');
  return written;
}

/** The binding first: then the policy has no effect. */
export async function remove(
  name: string,
  { policy, binding }: StoredPair,
  { client, log }: StoredPoliciesOptions,
  signal: AbortSignal,
): Promise<void> {
  for (const [kind, object] of [
    [BINDINGS, binding],
    [POLICIES, policy],
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

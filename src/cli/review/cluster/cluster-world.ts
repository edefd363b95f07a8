/** What policies see of a cluster that is reviewed: the kinds they refer to, listed once, and live reads before anything is blamed. */
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import type { World } from '../../../admission/policy/world.ts';
import { type KubeObject, groupResourceName, objectKey, type ObjectRef } from '../../../json/kube-object.ts';
import { createStore, type Store } from '../../../kube/store.ts';
import { createWorld } from '../../../runtime/policies/world.ts';
import type { Cluster } from './connect.ts';

/** @throws when a kind that a policy refers to cannot be read */
export async function loadWorld(
  { client, discovery }: Cluster,
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
    if (kind === undefined) continue; // it is not served: whatever names one is asked about, and learns so
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

/** Thousands of objects may name the same target. */
function once(read: LiveRead): LiveRead {
  const answers = new Map<string, ReturnType<LiveRead>>();
  return (ref: ObjectRef, signal, versions = []) => {
    const key = JSON.stringify([groupResourceName(ref), objectKey(ref), versions]);
    const known = answers.get(key) ?? read(ref, signal, versions);
    answers.set(key, known);
    return known;
  };
}

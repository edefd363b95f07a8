/**
 * Watches the CustomResourceDefinitions of converted kinds, each separately: a cluster may have thousands of others.
 */
import { readDefinition, type Definition } from '../../admission/conversion/definition.ts';
import { type KubeObject, groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { DefinitionRead } from './conversions.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';
import { pick } from '../../json/objects.ts';
import { watch, type WatchContext, type Watching } from '../watch.ts';

interface DefinitionObject extends KubeObject {
  readonly definition?: Definition | undefined;
}

export function createDefinitions(
  context: WatchContext,
  onChange: (target: GroupResource) => void,
  signal: AbortSignal,
) {
  const watches = new Map<string, Watching<DefinitionObject>>();

  const start = (target: GroupResource, name: string): Watching<DefinitionObject> => {
    const fieldSelector = `metadata.name=${name}`;
    const options = { resource: customResourceDefinitions, fieldSelector, transform: toDefinitionObject };
    const watching = watch<DefinitionObject>(context, options, signal);
    watching.onChange(() => onChange(target));
    return watching;
  };

  return {
    /** Starts a watch, and waits a limited time for the first answer. */
    read: async (target: GroupResource, waiting: AbortSignal): Promise<DefinitionRead> => {
      const name = groupResourceName(target);
      const watching = watches.get(name) ?? start(target, name);
      watches.set(name, watching);
      if (await watching.listedInTime(waiting))
        return { kind: 'read', definition: watching.store.get(name)?.definition };
      context.log.warn({ crd: name }, 'could not read a CustomResourceDefinition in time');
      return { kind: 'unread' };
    },
    /** The definition in the store. */
    get: (target: GroupResource): Definition | undefined => {
      const name = groupResourceName(target);
      return watches.get(name)?.store.get(name)?.definition;
    },
    /** Stops the watches of all definitions that are not in `needed`. */
    keepOnly: (needed: readonly GroupResource[]): void => {
      const names = new Set(needed.map(groupResourceName));
      for (const [name, { stop }] of watches) {
        if (names.has(name)) continue;
        stop();
        watches.delete(name);
      }
    },
  };
}

/** Keeps only the parts that conversion uses: a definition may have a megabyte. */
function toDefinitionObject(crd: DefinitionObject): DefinitionObject {
  return { metadata: pick(crd.metadata ?? {}, 'name', 'resourceVersion'), definition: readDefinition(crd) };
}

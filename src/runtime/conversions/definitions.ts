/**
 * Watches the CustomResourceDefinitions of converted kinds, each separately: a cluster may have thousands of others.
 */
import { readDefinition, type Definition } from '../../admission/conversion/definition.ts';
import { type KubeObject, groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { DefinitionRead } from './conversions.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export interface Definitions {
  /** Starts a watch, and waits a limited time for the first answer. */
  readonly read: (target: GroupResource, signal: AbortSignal) => Promise<DefinitionRead>;
  /** The definition in the store. */
  readonly get: (target: GroupResource) => Definition | undefined;
  /** Stops the watches of all definitions that are not in `needed`. */
  readonly keepOnly: (needed: readonly GroupResource[]) => void;
}

interface DefinitionObject extends KubeObject {
  readonly definition?: Definition | undefined;
}

/** Timeout for reading one definition, in milliseconds. */
const READING_MS = 10_000;

export function createDefinitions(
  context: WatchContext,
  onChange: (target: GroupResource) => void,
  signal: AbortSignal,
): Definitions {
  const watches = new Map<
    string,
    { readonly watched: Watched<DefinitionObject>; readonly stop: () => void }
  >();

  const start = (target: GroupResource) => {
    const own = new AbortController();
    const watched = watch<DefinitionObject>(
      context,
      {
        resource: customResourceDefinitions,
        fieldSelector: `metadata.name=${groupResourceName(target)}`,
        transform: toDefinitionObject,
        onChange: () => {
          onChange(target);
        },
      },
      AbortSignal.any([signal, own.signal]),
    );
    return {
      watched,
      stop: () => {
        own.abort();
      },
    };
  };

  return {
    read: async (target, waiting) => {
      const name = groupResourceName(target);
      const known = watches.get(name) ?? start(target);
      watches.set(name, known);
      const enough = AbortSignal.timeout(READING_MS);
      try {
        await known.watched.whenSynced(AbortSignal.any([waiting, enough]));
      } catch (error) {
        if (!enough.aborted) throw error;
        context.log.warn({ crd: name }, 'could not read a CustomResourceDefinition in time');
        return { kind: 'unread' };
      }
      return { kind: 'read', definition: known.watched.store.get(name)?.definition };
    },
    get: (target) => {
      const name = groupResourceName(target);
      return watches.get(name)?.watched.store.get(name)?.definition;
    },
    keepOnly: (needed) => {
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
  const { name, resourceVersion } = crd.metadata ?? {};
  return {
    metadata: {
      ...(name === undefined ? {} : { name }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    definition: readDefinition(crd),
  };
}

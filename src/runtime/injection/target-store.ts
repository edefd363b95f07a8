/** The objects of one kind that may carry a CA bundle, and which of them lack a root. */
import { keyOf, objectKey, type ObjectMeta } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { textIn, wantedSlots } from '../../pki/injection/plan.ts';
import { toTarget, type InjectionTarget, type Slot, type TargetKind } from '../../pki/injection/target.ts';
import { fingerprintsOf } from '../../pki/x509/pem.ts';
import type { Context } from '../context.ts';
import { versionsOf, watch } from '../watch.ts';

interface TargetHooks {
  /** Objects that matter have changed: their current and previous versions. */
  readonly onTarget: (key: string, targets: readonly InjectionTarget[]) => void;
  /** The content of an unchanged object has been read. */
  readonly onContent: () => void;
}

export type TargetStore = ReturnType<typeof watchTargets>;

/** @param own the object of this kind that Gatehouse writes completely. It matters even if it asks for no bundle */
export function watchTargets(
  context: Context,
  kind: TargetKind,
  resource: Resource,
  own: ObjectMeta,
  { onTarget, onContent }: TargetHooks,
  signal: AbortSignal,
) {
  const { compat } = context.config;
  // ConfigMaps are many and large: watch only their metadata, and read the few that matter.
  const metadataOnly = kind.kind === 'ConfigMap';
  const reader = createContentReader(context, kind, resource, onContent);
  const ownKey = objectKey(own);
  const matters = (target: InjectionTarget): boolean => asks(target) || keyOf(target) === ownKey;
  const { store, hasSynced, whenSynced } = watch<InjectionTarget>(
    context,
    {
      resource,
      metadataOnly,
      transform: (raw) => toTarget(kind, raw, compat),
      onChange: (key, change) => {
        if (change.kind === 'deleted') reader.forget(key);
        const changed = versionsOf(change).filter(matters);
        if (changed.length > 0) onTarget(key, changed);
      },
    },
    signal,
  );
  whenSynced(signal).then(onContent, () => undefined);

  return {
    kind,
    /** Whether Gatehouse writes this object completely. It must hold the bundle although it does not ask for it. */
    isOwn: (key: string): boolean => key === ownKey,
    /** Reads live if the watch covers only metadata. */
    read: (key: string, waiting: AbortSignal) => {
      const known = store.get(key);
      return known === undefined || !metadataOnly || !matters(known) ? known : reader.read(known, waiting);
    },
    /** The objects that matter, as the store has them. */
    list: (): readonly InjectionTarget[] => {
      const targets = store.list().filter(matters);
      if (!metadataOnly) return targets;
      // Clients copy the own ConfigMap. While it is missing, no client can have learnt of a new root from it.
      const absent = store.get(ownKey) === undefined ? [toTarget(kind, { metadata: own }, [])] : [];
      return [...targets.map(reader.withContent), ...absent];
    },
    /** The objects that ask for a bundle, or hold fields of Gatehouse. */
    asking: (): readonly InjectionTarget[] => store.list().filter(asks),
    hasSynced,
  };
}

/** Reads the content of targets whose watch covers only metadata. `onContent`: a new version has been read. */
function createContentReader(
  { client, config }: Context,
  kind: TargetKind,
  resource: Resource,
  onContent: () => void,
) {
  const last = new Map<string, InjectionTarget>();
  const versionOf = (target: InjectionTarget | undefined) => target?.metadata?.resourceVersion;
  return {
    /** A live read; undefined when the object is gone. */
    read: async ({ metadata = {} }: InjectionTarget, signal: AbortSignal) => {
      const key = objectKey(metadata);
      const { namespace, name = '' } = metadata;
      const live = await client.get(resource, { namespace, name }, { signal });
      if (live === undefined) return undefined;
      const target = toTarget(kind, live, config.compat);
      const isNew = versionOf(target) !== versionOf(last.get(key));
      last.set(key, target);
      if (isNew) onContent();
      return target;
    },
    /** The target with its content if this version has been read; otherwise as if it were empty. */
    withContent: (known: InjectionTarget): InjectionTarget => {
      const read = last.get(keyOf(known));
      return read !== undefined && versionOf(read) === versionOf(known) ? read : known;
    },
    forget: (key: string) => void last.delete(key),
  };
}

const asks = ({ request, own }: InjectionTarget): boolean => request.kind !== 'none' || own.length > 0;

/**
 * The objects that must trust a root and do not trust it yet. A rotation waits for them.
 * @param root the SHA-256 fingerprint of its certificate
 */
export function targetsWithoutRoot(
  stores: readonly Pick<TargetStore, 'kind' | 'list' | 'isOwn'>[],
  root: string,
): readonly string[] {
  return stores.flatMap(({ kind, list, isOwn }) =>
    list().flatMap((target) => {
      const key = keyOf(target);
      const slots = isOwn(key) ? target.slots.filter(isServed) : slotsOfAuthority(target);
      const trusts = (slot: Slot) => fingerprintsOf(textIn(kind, slot))?.split(',').includes(root) === true;
      return slots.every(trusts) ? [] : [`${kind.kind} ${key}`];
    }),
  );
}

/** While a developer's machine serves Gatehouse's own webhooks, they have its URL and its root. */
const isServed = ({ reach }: Slot): boolean => reach === 'service';

/** An object that is being deleted, or filled from another source, is no evidence about the roots of the authority. */
function slotsOfAuthority(target: InjectionTarget): readonly Slot[] {
  const { request, metadata } = target;
  if (metadata?.deletionTimestamp !== undefined) return [];
  return request.kind === 'wanted' && request.source.kind === 'authority' ? wantedSlots(target) : [];
}

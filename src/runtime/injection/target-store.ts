/** The objects of one kind that may carry a CA bundle, and which of them lack a root. */
import { keyOf, objectKey } from '../../json/kube-object.ts';
import type { Change } from '../../kube/watch/change.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Resource } from '../../kube/object.ts';
import { textIn, wantedSlots } from '../../pki/injection/plan.ts';
import { toTarget, type InjectionTarget, type Slot, type TargetKind } from '../../pki/injection/target.ts';
import { fingerprintsOf } from '../../pki/x509/pem.ts';
import type { Context } from '../context.ts';
import { watch } from '../watch.ts';

interface TargetStoreOptions {
  readonly kind: TargetKind;
  readonly resource: Resource;
  /** The object of this kind that Gatehouse writes completely. It matters even if it asks for no bundle. */
  readonly own: string;
  /** Objects that matter have changed: their current and previous versions. */
  readonly onTarget: (key: string, targets: readonly InjectionTarget[]) => void;
  /** The content of an unchanged object has been read. */
  readonly onContent: () => void;
}

export interface TargetStore {
  /** Reads live if the watch covers only metadata. */
  readonly read: (
    key: string,
    signal: AbortSignal,
  ) => InjectionTarget | undefined | Promise<InjectionTarget | undefined>;
  /** The objects that matter, as the store has them. */
  readonly list: () => readonly InjectionTarget[];
  /** The objects that ask for a bundle, or hold fields of Gatehouse. */
  readonly asking: () => readonly InjectionTarget[];
  readonly hasSynced: () => boolean;
}

type LeaderContext = Context & { readonly client: KubeClient };

export function watchTargets(
  context: LeaderContext,
  { kind, resource, own, onTarget, onContent }: TargetStoreOptions,
  signal: AbortSignal,
): TargetStore {
  // ConfigMaps are many and large: watch only their metadata, and read the few that matter.
  const metadataOnly = kind.kind === 'ConfigMap';
  const reader = createContentReader(context, kind, resource, onContent);
  const matters = (target: InjectionTarget): boolean => asks(target) || keyOf(target) === own;
  const { store, hasSynced, whenSynced } = watch<InjectionTarget>(
    context,
    {
      resource,
      metadataOnly,
      transform: (raw) => toTarget(kind, raw, context.config.compat),
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
    read: (key, waiting) => {
      const known = store.get(key);
      return known === undefined || !metadataOnly || !matters(known) ? known : reader.read(known, waiting);
    },
    list: () => {
      const targets = store.list().filter(matters);
      return metadataOnly ? targets.map(reader.withContent) : targets;
    },
    asking: () => store.list().filter(asks),
    hasSynced,
  };
}

interface ContentReader {
  /** A live read; undefined when the object is gone. */
  readonly read: (known: InjectionTarget, signal: AbortSignal) => Promise<InjectionTarget | undefined>;
  /** The target with its content if this version has been read; otherwise as if it were empty. */
  readonly withContent: (known: InjectionTarget) => InjectionTarget;
  readonly forget: (key: string) => void;
}

/** Reads the content of targets whose watch covers only metadata. */
function createContentReader(
  { client, config }: LeaderContext,
  kind: TargetKind,
  resource: Resource,
  /** A new version has been read. */
  onContent: () => void,
): ContentReader {
  const last = new Map<string, InjectionTarget>();
  const versionOf = (target: InjectionTarget | undefined) => target?.metadata?.resourceVersion;
  return {
    read: async ({ metadata = {} }, signal) => {
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
    withContent: (known) => {
      const read = last.get(keyOf(known));
      return read !== undefined && versionOf(read) === versionOf(known) ? read : known;
    },
    forget: (key) => void last.delete(key),
  };
}

const asks = ({ request, own }: InjectionTarget): boolean => request.kind !== 'none' || own.length > 0;

const versionsOf = (change: Change<InjectionTarget>): readonly InjectionTarget[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];

/** The objects of one kind. */
export interface TargetView {
  readonly kind: TargetKind;
  readonly targets: () => readonly InjectionTarget[];
  /** Whether Gatehouse writes this object completely. It must hold the bundle although it does not ask for it. */
  readonly isOwn: (key: string) => boolean;
}

/**
 * The objects that must trust a root and do not trust it yet. A rotation waits for them.
 * @param root the SHA-256 fingerprint of its certificate
 */
export function targetsWithoutRoot(views: readonly TargetView[], root: string): readonly string[] {
  return views.flatMap(({ kind, targets, isOwn }) =>
    targets().flatMap((target) => {
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

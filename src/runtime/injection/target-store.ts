/** The objects of one kind that may carry a CA bundle, their states, and which roots they trust. */
import { keyOf, objectKey, type ObjectMeta } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { isForbidden, isNotFound } from '../../kube/api-error.ts';
import { MAX_BUNDLE_BYTES, type LaggingTargets } from '../../pki/authority/authority.ts';
import { textIn, wantedSlots } from '../../pki/injection/plan.ts';
import { toTarget, type InjectionTarget, type Slot, type TargetKind } from '../../pki/injection/target.ts';
import { readableCertificates } from '../../pki/x509/pem.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { STARTING_MS, versionsOf, watch } from '../watch.ts';
import type { TargetKindName } from '../../pki/injection/request.ts';

interface TargetHooks {
  readonly onTarget: (key: string, targets: readonly InjectionTarget[]) => void;
  readonly onTrust: (key: string, trust: TargetTrust | undefined) => void;
  readonly onListing: () => void;
}

export type Listing =
  | { readonly kind: 'complete' | 'pending' | 'not-served' }
  /** `isLasting`: no retry is expected to succeed soon, so the administrator must know. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly isLasting: boolean };

export type TargetStore = ReturnType<typeof watchTargets>;

/** @param own the object of this kind that Gatehouse writes completely. It matters even if it asks for no bundle */
export function watchTargets(
  context: Context<ControllersConfig>,
  kind: TargetKind,
  resource: Resource,
  own: ObjectMeta,
  { onTarget, onTrust, onListing }: TargetHooks,
  signal: AbortSignal,
) {
  const { compat, without } = context.config;
  // ConfigMaps are many and large: watch only their metadata, and read the few that matter.
  const metadataOnly = kind.kind === 'ConfigMap';
  const ownKey = objectKey(own);
  /** Gatehouse creates its ClusterTrustBundle, and ignores all others. */
  const initial = kind.kind === 'ClusterTrustBundle' ? toTarget(kind, { metadata: own }, compat) : undefined;
  const onContent = (key: string, target: InjectionTarget) =>
    onTrust(key, trustOf(kind, target, key === ownKey));
  const reader = createContentReader(context, kind, resource, onContent);
  const matters = (target: InjectionTarget): boolean => asks(target) || keyOf(target) === ownKey;
  const { store, hasSynced, whenSynced, failure, failingMs } = watch<InjectionTarget>(
    context,
    {
      resource,
      metadataOnly,
      ...(initial === undefined && !without.includes('injection')
        ? {}
        : { namespace: own.namespace, name: own.name ?? '' }),
      transform: (raw) => toTarget(kind, raw, compat),
      onChange: (key, change) => {
        if (change.kind === 'deleted') reader.forget(key);
        const changed = versionsOf(change).filter(matters);
        if (changed.length === 0) return;
        onTrust(key, trustAt(key));
        onTarget(key, changed);
      },
      onFailure: onListing,
    },
    signal,
  );
  const onSynced = () => {
    onListing();
    const absent = missing();
    if (absent === undefined) return;
    onTrust(ownKey, trustAt(ownKey));
    onTarget(ownKey, [absent]);
  };
  const missing = () => (hasSynced() && store.get(ownKey) === undefined ? initial : undefined);
  whenSynced(signal).then(onSynced, () => undefined);
  const trustAt = (key: string): TargetTrust | undefined => {
    const stored = store.get(key);
    if (stored !== undefined)
      return trustOf(kind, metadataOnly ? reader.withContent(stored) : stored, key === ownKey);
    if (key !== ownKey) return undefined;
    if (missing() !== undefined) return UNPUBLISHED;
    return metadataOnly ? NO_TRUST : undefined;
  };
  onTrust(ownKey, trustAt(ownKey));

  return {
    kind,
    read: (key: string, waiting: AbortSignal) => {
      const known = store.get(key) ?? (key === ownKey ? missing() : undefined);
      return known === undefined || !metadataOnly || !matters(known) ? known : reader.read(known, waiting);
    },
    /** The objects that ask for a bundle, hold fields of Gatehouse, or are yet to be created by it. */
    asking: (): readonly InjectionTarget[] => {
      const absent = missing();
      return [...store.list(), ...(absent === undefined ? [] : [absent])].filter(asks);
    },
    listing: (): Listing => listingOf(failure(), hasSynced(), failingMs()),
  };
}

/** Reads the content of targets whose watch covers only metadata. `onContent`: a new version has been read. */
function createContentReader(
  { client, config }: Context<ControllersConfig>,
  kind: TargetKind,
  resource: Resource,
  onContent: (key: string, target: InjectionTarget) => void,
) {
  const last = new Map<string, InjectionTarget>();
  const versionOf = (target: InjectionTarget | undefined) => target?.metadata?.resourceVersion;
  return {
    read: async ({ metadata = {} }: InjectionTarget, signal: AbortSignal) => {
      const key = objectKey(metadata);
      const { namespace, name = '' } = metadata;
      const live = await client.get(resource, { namespace, name }, { signal });
      if (live === undefined) return undefined;
      const target = toTarget(kind, live, config.compat);
      const isNew = versionOf(target) !== versionOf(last.get(key));
      last.set(key, target);
      if (isNew) onContent(key, target);
      return target;
    },
    withContent: (known: InjectionTarget): InjectionTarget => {
      const read = last.get(keyOf(known));
      return read !== undefined && versionOf(read) === versionOf(known) ? read : known;
    },
    forget: (key: string) => void last.delete(key),
  };
}

const asks = ({ request, own }: InjectionTarget): boolean => request.kind !== 'none' || own.length > 0;

/** An error of a watch that was complete is transient, unless the API server forbids the watch. */
export function listingOf(error: unknown, hasSynced: boolean, failingMs: number): Listing {
  if (isNotFound(error)) return { kind: 'not-served' };
  const isLasting = isForbidden(error) && failingMs >= STARTING_MS;
  if (isForbidden(error) || (error !== undefined && !hasSynced)) return { kind: 'failed', error, isLasting };
  return { kind: hasSynced ? 'complete' : 'pending' };
}

/** Clients copy the own ConfigMap. While it is missing, no client can have learnt of a new root from it. */
const NO_TRUST: TargetTrust = { roots: new Set(), canVeto: true };
/** Pods cannot mount it yet. If the API server refuses it forever, rotations go on. */
const UNPUBLISHED: TargetTrust = { roots: new Set(), canVeto: false };

/** What a target must trust for a rotation to continue; undefined: nothing. `own`: it counts without a request. */
export function trustOf(kind: TargetKind, target: InjectionTarget, own: boolean): TargetTrust | undefined {
  const slots = own ? target.slots.filter(isServed) : slotsOfAuthority(target);
  const [first, ...others] = slots.map((slot) => certificatesIn(textIn(kind, slot)));
  if (first === undefined) return undefined;
  const roots = others.reduce((common, one) => new Set([...common].filter((root) => one.has(root))), first);
  return { roots, canVeto: own || target.metadata?.namespace === undefined };
}

/** Thousands of targets hold the same few bundles. */
const MAX_TEXTS = 32;
const bundles = new Map<string, ReadonlySet<string>>();

/** The fingerprints of the certificates in a bundle. A text that is broken or too large holds none. */
export function certificatesIn(text: string): ReadonlySet<string> {
  const before = bundles.get(text);
  if (before !== undefined) return before;
  const readable = text.length > MAX_BUNDLE_BYTES ? [] : (readableCertificates(text) ?? []);
  const found = new Set(readable.map(({ fingerprint256 }) => fingerprint256));
  bundles.set(text, found);
  const [oldest] = bundles.keys();
  if (bundles.size > MAX_TEXTS && oldest !== undefined) bundles.delete(oldest);
  return found;
}

/** While a developer's machine serves Gatehouse's own webhooks, they have its URL and its root. */
const isServed = ({ reach }: Slot): boolean => reach === 'service';

/** An object that is being deleted, or filled from another source, is no evidence about the roots of the authority. */
function slotsOfAuthority(target: InjectionTarget): readonly Slot[] {
  const { request, metadata } = target;
  if (metadata?.deletionTimestamp !== undefined) return [];
  return request.kind === 'wanted' && request.source.kind === 'authority' ? wantedSlots(target) : [];
}

const STATES = ['current', 'stale', 'contended', 'invalid'] as const;
export type TargetState = (typeof STATES)[number];

export interface TargetTrust {
  /** The SHA-256 fingerprints of the certificates that every entry of the target contains. */
  readonly roots: ReadonlySet<string>;
  /** Whether a rotation waits for this target until the old root is about to expire. */
  readonly canVeto: boolean;
}

/** What is known of one target, or of a copy of a distributed bundle; a copy lacks state. */
interface TargetRecord {
  readonly kind?: TargetKindName;
  readonly state?: TargetState | undefined;
  readonly staleSince?: number | undefined;
  /** Undefined: it need not trust the authority. */
  readonly trust?: TargetTrust | undefined;
}

type Names = Readonly<Record<keyof LaggingTargets, Set<string>>>;

/** One for each generation of the authority, and one for the generation before. */
const MAX_ROOTS = 4;
export type TargetRecords = ReturnType<typeof createTargetRecords>;

/** Updated per target, so that a question about a root scans nothing. `onEvidence`: a rotation may continue, or must wait again. */
export function createTargetRecords(
  kinds: readonly TargetKindName[],
  onEvidence: () => void,
  monotonic = () => performance.now(),
) {
  const records = new Map<string, TargetRecord>();
  const lagging = new Map<string, Names>();

  /** Returns whether one of the two sets is empty now and was not before, or the other way round. */
  const place = (name: string, root: string, names: Names): boolean => {
    const { trust, state } = records.get(name) ?? {};
    const lacks = trust?.roots.has(root) === false;
    // Without the veto, a client that keeps reverting a target cannot prevent rotations.
    const vetoes = trust?.canVeto === true && state !== 'contended';
    const before = [names.vetoing.size === 0, names.delaying.size === 0];
    toggle(names.vetoing, name, lacks && vetoes);
    toggle(names.delaying, name, lacks && !vetoes);
    return before[0] !== (names.vetoing.size === 0) || before[1] !== (names.delaying.size === 0);
  };
  const change = (name: string, part: TargetRecord): void => {
    const next = { ...records.get(name), ...part };
    if (next.state === undefined && next.trust === undefined) records.delete(name);
    else records.set(name, next);
    const changes = [...lagging].map(([root, names]) => place(name, root, names));
    if (changes.includes(true)) onEvidence();
  };
  const track = (root: string): Names => {
    const names: Names = { vetoing: new Set(), delaying: new Set() };
    for (const name of records.keys()) place(name, root, names);
    return names;
  };

  return {
    report: (kind: TargetKindName, key: string, state: TargetState | undefined): void => {
      const name = targetName(kind, key);
      const isStale = state !== undefined && state !== 'current';
      const staleSince = isStale ? (records.get(name)?.staleSince ?? monotonic()) : undefined;
      change(name, { kind, state, staleSince });
    },
    trust: (name: string, trust: TargetTrust | undefined): void => change(name, { trust }),
    targets: () => {
      const all = [...records.values()];
      return kinds.flatMap((kind) =>
        STATES.map((state) => ({
          kind,
          state,
          count: all.filter((record) => record.kind === kind && record.state === state).length,
        })),
      );
    },
    /** How long the oldest target that is not current has been so, in seconds; 0 when all are current. */
    staleSeconds: (): number => {
      const now = monotonic();
      const since = [...records.values()].map(({ staleSince = now }) => staleSince);
      return (now - since.reduce((a, b) => Math.min(a, b), now)) / 1000;
    },
    /** @param root the SHA-256 fingerprint of its certificate */
    without: (root: string): LaggingTargets => {
      const names = lagging.get(root) ?? track(root);
      lagging.delete(root);
      lagging.set(root, names);
      const [oldest] = lagging.keys();
      if (lagging.size > MAX_ROOTS && oldest !== undefined) lagging.delete(oldest);
      return { vetoing: [...names.vetoing], delaying: [...names.delaying] };
    },
  };
}

export const targetName = (kind: TargetKindName, key: string): string => `${kind} ${key}`;

function toggle(set: Set<string>, name: string, isIn: boolean): void {
  if (isIn) set.add(name);
  else set.delete(name);
}

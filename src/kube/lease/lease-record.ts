import type { CallOptions, KubeClient } from '../client.ts';
import type { Clock } from '../clock.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { leases } from '../well-known.ts';

export interface LeaseSpec {
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  /** RFC 3339 with microseconds. */
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
}

export interface LeaseObject extends KubeObject {
  readonly spec?: LeaseSpec;
}

export interface Observed {
  readonly lease: LeaseObject | undefined;
  readonly progress: LeaseProgress;
}

/** How a Lease relates to the ones seen before: written later, no evidence of a later write, or an older copy. */
export type LeaseProgress = 'forward' | 'unchanged' | 'back';

export interface LeaseNotes {
  readonly judge: (lease: LeaseObject) => LeaseProgress;
  readonly annotations: (lease: LeaseObject | undefined) => Readonly<Record<string, string>> | undefined;
}

export type Judgement =
  | { readonly kind: 'free' }
  /** `expiresInMs` counts from the last change of the spec that this process saw, by its own clock. */
  | { readonly kind: 'taken'; readonly expiresInMs: number };

export interface LeaseSettings {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Default: unchanged, and every Lease counts as `forward`. */
  readonly notes?: LeaseNotes;
}

const NO_NOTES: LeaseNotes = { judge: () => 'forward', annotations: (lease) => lease?.metadata?.annotations };

/** Each write sends the resourceVersion that was read, so a stale one conflicts. */
export function createLeaseRecord(
  { client, namespace, name, identity, labels = {}, notes = NO_NOTES }: LeaseSettings,
  durationMs: number,
  clock: Clock,
) {
  let last: Observed | undefined;
  let everSeen = false;
  /** The spec, and when this process first saw it. */
  let sign: { readonly spec: string; readonly seenAt: number } | undefined;
  /** The `acquireTime` that this process wrote: an earlier process with the same identity wrote another one. */
  let acquiredAt: string | undefined;

  const observe = (lease: LeaseObject | undefined): Observed => {
    last = { lease, progress: lease === undefined ? 'unchanged' : notes.judge(lease) };
    everSeen ||= lease !== undefined;
    const spec = JSON.stringify(lease?.spec);
    if (sign?.spec !== spec) sign = { spec, seenAt: clock.monotonic() };
    return last;
  };

  const isOurs = ({ lease }: Observed): boolean =>
    lease?.spec?.holderIdentity === identity && lease.spec.acquireTime === acquiredAt;

  const put = async (lease: LeaseObject, spec: LeaseSpec, options: CallOptions): Promise<void> => {
    const annotations = notes.annotations(lease);
    const metadata = {
      ...lease.metadata,
      labels: { ...lease.metadata?.labels, ...labels },
      ...(annotations === undefined ? {} : { annotations }),
    };
    observe(await client.replace<LeaseObject>(leases, { ...lease, metadata, spec }, options));
  };

  const read = async (options: CallOptions): Promise<Observed> =>
    observe(await client.get<LeaseObject>(leases, { namespace, name }, options));

  return {
    last: (): Observed | undefined => last,
    forget: (): void => {
      last = undefined;
    },
    read,
    /** @param leading whether this process leads now, according to its own clock */
    judge: (observed: Observed, leading: boolean): Judgement => {
      const { holderIdentity = '', leaseDurationSeconds } = observed.lease?.spec ?? {};
      // If a Lease was deleted, its holder gets time to create it again.
      const isGone = observed.lease === undefined && everSeen;
      if (holderIdentity === '' && !isGone) return { kind: 'free' };
      // While we lead, a Lease that is not `forward` is a copy from a backup: another replica writes only after we stop leading.
      if (leading && observed.progress !== 'forward') return { kind: 'free' };
      // An older copy that names us does not make us the leader again: another replica may lead now.
      if (isOurs(observed) && observed.progress !== 'back') return { kind: 'free' };
      const lifeMs = leaseDurationSeconds === undefined ? durationMs : leaseDurationSeconds * 1_000;
      const expiresInMs = (sign?.seenAt ?? clock.monotonic()) + lifeMs - clock.monotonic();
      return expiresInMs <= 0 ? { kind: 'free' } : { kind: 'taken', expiresInMs };
    },
    write: async (observed: Observed, options: CallOptions): Promise<void> => {
      const now = toMicroTime(clock.now());
      const ours = isOurs(observed);
      if (!ours) acquiredAt = now;
      const { lease } = observed;
      const spec: LeaseSpec = {
        ...lease?.spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(durationMs / 1_000),
        renewTime: now,
        ...(ours ? {} : { acquireTime: now, leaseTransitions: transitionsAfter(lease) }),
      };
      if (lease !== undefined) return put(lease, spec, options);
      const annotations = notes.annotations(undefined);
      const metadata = { namespace, name, labels, ...(annotations === undefined ? {} : { annotations }) };
      observe(await client.create<LeaseObject>(leases, { metadata, spec }, options));
    },
    release: async (options: CallOptions): Promise<void> => {
      const observed = last ?? (await read(options));
      if (observed.lease === undefined || !isOurs(observed)) return;
      const now = toMicroTime(clock.now());
      // One second, like client-go: even a reader that ignores the empty holder does not wait long.
      const spec = { ...observed.lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: now };
      await put(observed.lease, spec, options);
    },
  };
}

const transitionsAfter = (lease: LeaseObject | undefined): number =>
  lease === undefined ? 0 : (lease.spec?.leaseTransitions ?? 0) + 1;

/** metav1.MicroTime always has six fractional digits. */
const toMicroTime = (now: number): string => new Date(now).toISOString().replace('Z', '000Z');

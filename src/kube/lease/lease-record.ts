import type { CallOptions, KubeClient } from '../client.ts';
import type { Clock } from '../clock.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { leases } from '../well-known.ts';

/** @see https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/ */
export interface LeaseSpec {
  /** Empty when it was given back. */
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

/** The Lease as read last; `lease` is undefined when there is none. */
export interface Observed {
  readonly lease: LeaseObject | undefined;
  readonly course: LeaseCourse;
}

/** How a Lease stands to those that were seen before it: written after them, no sign of that, or an older copy. */
export type LeaseCourse = 'onward' | 'standing' | 'back';

/** What the annotations of a Lease tell of its course, and who writes them. */
export interface LeaseNotes {
  /** Told each Lease that was read or written, one after the other. */
  readonly judge: (lease: LeaseObject) => LeaseCourse;
  /** What the annotations become with the next write, over `lease`. */
  readonly annotations: (lease: LeaseObject | undefined) => Readonly<Record<string, string>> | undefined;
}

export type Judgement =
  | { readonly kind: 'free' }
  /** `expiresInMs` is counted from the last sign of life that we saw, by our own clock. */
  | { readonly kind: 'taken'; readonly expiresInMs: number };

export interface LeaseRecordDeps {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly durationMs: number;
  /** Default: a Lease without annotations, whose course is never in doubt. */
  readonly notes?: LeaseNotes | undefined;
  readonly clock: Clock;
}

const NO_NOTES: LeaseNotes = {
  judge: () => 'onward',
  annotations: (lease) => lease?.metadata?.annotations,
};

/** What this process knows of a Lease, and how it writes it: always with the resourceVersion that it has read. */
export interface LeaseRecord {
  /** As read or written last; undefined when that is not to be trusted. */
  readonly last: () => Observed | undefined;
  readonly forget: () => void;
  readonly read: (options: CallOptions) => Promise<Observed>;
  /** @param leading whether we lead now, by our own clock */
  readonly judge: (observed: Observed, leading: boolean) => Judgement;
  /** Takes or renews. @throws a conflict when somebody else has written since */
  readonly write: (observed: Observed, options: CallOptions) => Promise<void>;
  /** Gives it back, if it is ours. */
  readonly release: (options: CallOptions) => Promise<void>;
}

export function createLeaseRecord(deps: LeaseRecordDeps, onHolder: (identity: string) => void): LeaseRecord {
  const { client, namespace, name, identity, labels = {}, durationMs, notes = NO_NOTES, clock } = deps;
  let last: Observed | undefined;
  let everSeen = false;
  /** The last sign of life: what the record said, and when we first saw it say that. */
  let sign: { readonly spec: string; readonly seenAt: number } | undefined;
  let holder: string | undefined;
  /** When we took it, as we wrote it. Tells our own record from one of a namesake before us. */
  let acquiredAt: string | undefined;

  const observe = (lease: LeaseObject | undefined): Observed => {
    last = { lease, course: lease === undefined ? 'standing' : notes.judge(lease) };
    everSeen ||= lease !== undefined;
    const spec = JSON.stringify(lease?.spec);
    if (sign?.spec !== spec) sign = { spec, seenAt: clock.monotonic() };
    const now = lease?.spec?.holderIdentity ?? '';
    if (now !== '' && now !== holder) onHolder(now);
    holder = now;
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
    last: () => last,
    forget: () => {
      last = undefined;
    },
    read,
    judge: (observed, leading) => {
      const { holderIdentity = '', leaseDurationSeconds } = observed.lease?.spec ?? {};
      // One that was there a moment ago is its holder's to make again.
      const isGone = observed.lease === undefined && everSeen;
      if (holderIdentity === '' && !isGone) return { kind: 'free' };
      // Whoever takes over waits until the leader before it has given up, and its Lease goes onward: what says otherwise while we
      // lead is a copy from a backup or a snapshot.
      if (leading && observed.course !== 'onward') return { kind: 'free' };
      // A copy that names us does not make us the leader again: somebody else may be it now.
      if (isOurs(observed) && observed.course !== 'back') return { kind: 'free' };
      const lifeMs = leaseDurationSeconds === undefined ? durationMs : leaseDurationSeconds * 1_000;
      const expiresInMs = (sign?.seenAt ?? clock.monotonic()) + lifeMs - clock.monotonic();
      return expiresInMs <= 0 ? { kind: 'free' } : { kind: 'taken', expiresInMs };
    },
    write: async (observed, options) => {
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
    release: async (options) => {
      const observed = last ?? (await read(options));
      if (observed.lease === undefined || !isOurs(observed)) return;
      const now = toMicroTime(clock.now());
      // One second, as client-go: a reader that ignores the empty holder does not wait long either.
      const spec = { ...observed.lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: now };
      await put(observed.lease, spec, options);
    },
  };
}

function transitionsAfter(lease: LeaseObject | undefined): number {
  return lease === undefined ? 0 : (lease.spec?.leaseTransitions ?? 0) + 1;
}

/** metav1.MicroTime: always six digits. */
function toMicroTime(now: number): string {
  return new Date(now).toISOString().replace('Z', '000Z');
}

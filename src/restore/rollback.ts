/** Whether the cluster went back in time, or was without us: told from the Lease of the leader, which is written all the time. */

/** Raised with each write of the Lease. */
export const EPOCH = 'gatehouse.dev/epoch';
/** The epoch in which a leader last said that the cluster went back in time; replicas that see a new one list everything anew. */
export const ROLLBACK = 'gatehouse.dev/rollback';

/** The Lease as one look saw it. Numbers are undefined where there is none, or something else: that is no sign of anything. */
export interface LeaseSight {
  readonly epoch: bigint | undefined;
  /** Opaque by convention, but a number that only grows wherever etcd is behind it. */
  readonly resourceVersion: bigint | undefined;
  readonly rollback: string | undefined;
}

/** What a replica remembers of the Lease. */
export interface LeaseMemory {
  /** The last look. */
  readonly sight: LeaseSight;
  /** The highest epoch ever seen: the next write is above it, also after a rollback. */
  readonly highest: bigint;
  /** A rollback that this replica saw itself, and that no leader has announced since. */
  readonly unannounced: boolean;
}

export interface Rollback {
  /** `Told`: another replica saw it. */
  readonly evidence: 'Epoch' | 'ResourceVersion' | 'Told';
  /** For people. */
  readonly message: string;
}

export interface SightVerdict {
  /** Against all that was ever seen: a copy from the past stays one, however often it is looked at. */
  readonly course: 'onward' | 'standing' | 'back';
  /** Undefined: nothing to be done about it. */
  readonly rollback: Rollback | undefined;
  readonly memory: LeaseMemory;
}

const NOTHING_KNOWN: LeaseMemory = {
  sight: { epoch: undefined, resourceVersion: undefined, rollback: undefined },
  highest: 0n,
  unannounced: false,
};

/** @param memory undefined at the first look */
export function judgeSight(memory: LeaseMemory | undefined, sight: LeaseSight): SightVerdict {
  const before = memory ?? NOTHING_KNOWN;
  const seen = evidenceOf(before.sight, sight);
  const announced = sight.rollback !== undefined && sight.rollback !== before.sight.rollback;
  // The first look compares with nothing, and what one has seen oneself need not be told.
  const told = announced && seen === undefined && memory !== undefined && !before.unannounced;
  return {
    course: seen === undefined ? courseOf(before.highest, sight.epoch) : 'back',
    rollback: told
      ? { evidence: 'Told', message: 'another replica saw that the cluster went back in time' }
      : seen,
    memory: {
      // After a rollback the numbers of the copy are where time goes on from: the same copy is not reported twice.
      sight: { ...sight, epoch: sight.epoch ?? before.sight.epoch },
      highest: max(before.highest, sight.epoch),
      unannounced: seen !== undefined || (before.unannounced && !announced),
    },
  };
}

function evidenceOf(before: LeaseSight, now: LeaseSight): Rollback | undefined {
  const copy = 'etcd was restored from a snapshot, or a backup brought an old copy back';
  if (isLower(now.epoch, before.epoch))
    return {
      evidence: 'Epoch',
      message: `the lease went back from epoch ${before.epoch} to ${now.epoch}: ${copy}`,
    };
  if (isLower(now.resourceVersion, before.resourceVersion))
    return {
      evidence: 'ResourceVersion',
      message: `the lease went back from resourceVersion ${before.resourceVersion} to ${now.resourceVersion}: etcd was restored from a snapshot`,
    };
  return undefined;
}

const isLower = (now: bigint | undefined, before: bigint | undefined): boolean =>
  now !== undefined && before !== undefined && now < before;

function courseOf(highest: bigint, now: bigint | undefined): SightVerdict['course'] {
  if (now === undefined || now === highest) return 'standing';
  return now > highest ? 'onward' : 'back';
}

const max = (a: bigint, b: bigint | undefined): bigint => (b !== undefined && b > a ? b : a);

const NUMBER = /^\d{1,30}$/;

/** @param text an annotation or a resourceVersion */
export function toNumber(text: string | undefined): bigint | undefined {
  return text !== undefined && NUMBER.test(text) ? BigInt(text) : undefined;
}

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../api/group.ts';
import { toTimestamp } from '../json/kube-object.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { SWEEP_FINALIZER } from './window.ts';

/** The leader renews its Lease all the time: it shows that the cluster went back in time, or had no leader. */
export const EPOCH = 'gatehouse.dev/epoch';
/** The epoch in which a leader last announced a rollback. Replicas that see a new value list everything again. */
export const ROLLBACK = 'gatehouse.dev/rollback';

/** A number is undefined if it is missing or malformed: that is no evidence of a rollback. */
export interface LeaseObservation {
  readonly epoch: bigint | undefined;
  /** Opaque by convention, but with etcd as the storage it is a number that only grows. */
  readonly resourceVersion: bigint | undefined;
  readonly rollback: string | undefined;
}

export interface LeaseHistory {
  readonly last: LeaseObservation;
  /** The highest epoch ever seen. The next write exceeds it, even after a rollback. */
  readonly highest: bigint;
  /** Whether this replica saw a rollback that no leader has announced since. */
  readonly unannounced: boolean;
}

interface Rollback {
  /** `Told`: another replica saw it. */
  readonly evidence: 'Epoch' | 'ResourceVersion' | 'Told';
  readonly message: string;
}

export interface LeaseAssessment {
  /** Compared with the highest epoch ever seen: an old copy of the Lease remains `back`, however often it is read. */
  readonly progress: 'forward' | 'unchanged' | 'back';
  readonly rollback: Rollback | undefined;
  readonly memory: LeaseHistory;
}

const NO_HISTORY: LeaseHistory = {
  last: { epoch: undefined, resourceVersion: undefined, rollback: undefined },
  highest: 0n,
  unannounced: false,
};

/** @param memory undefined for the first observation */
export function assessLease(memory: LeaseHistory | undefined, observed: LeaseObservation): LeaseAssessment {
  const before = memory ?? NO_HISTORY;
  const seen = evidenceOf(before.last, observed);
  const announced = observed.rollback !== undefined && observed.rollback !== before.last.rollback;
  // Nothing precedes the first observation. A rollback that this replica saw itself is not news.
  const told = announced && seen === undefined && memory !== undefined && !before.unannounced;
  return {
    progress: seen === undefined ? progressOf(before.highest, observed.epoch) : 'back',
    rollback: told
      ? { evidence: 'Told', message: 'another replica saw that the cluster went back in time' }
      : seen,
    memory: {
      // After a rollback, the numbers of the old copy become the baseline, so that the same copy is not reported twice.
      last: { ...observed, epoch: observed.epoch ?? before.last.epoch },
      highest: max(before.highest, observed.epoch),
      unannounced: seen !== undefined || (before.unannounced && !announced),
    },
  };
}

function evidenceOf(before: LeaseObservation, now: LeaseObservation): Rollback | undefined {
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

function progressOf(highest: bigint, now: bigint | undefined): LeaseAssessment['progress'] {
  if (now === undefined || now === highest) return 'unchanged';
  return now > highest ? 'forward' : 'back';
}

const max = (a: bigint, b: bigint | undefined): bigint => (b !== undefined && b > a ? b : a);

const NUMBER = /^\d{1,30}$/;

export function toNumber(text: string | undefined): bigint | undefined {
  return text !== undefined && NUMBER.test(text) ? BigInt(text) : undefined;
}

/** On the Lease: the name of the sweep window that the leader, or the next one, still has to create. */
export const SWEEP_DUE = 'gatehouse.dev/sweep-due';

/** After a longer time without a leader, Gatehouse checks everything again. */
export const MAX_LEADERLESS_MS = 10 * 60_000;

/** The window is closed from the start, but the API requires an expiry. */
const EXPIRES_AFTER_MS = 3_600_000;

const NAME = /^(?:(rollback)-(\d{1,30})|(startup)-(\d{1,11}))$/;

/** @param epoch in which a leader announces the rollback: no two rollbacks share one */
export const rollbackSweep = (epoch: bigint): string => `rollback-${epoch}`;

/** It contains the last renewal of the Lease, so every replica chooses the same name. */
export function startupSweep(renewTime: string | undefined, now: Date): string | undefined {
  const renewed = new Date(renewTime ?? NaN).getTime();
  return now.getTime() - renewed > MAX_LEADERLESS_MS ? `startup-${Math.floor(renewed / 1_000)}` : undefined;
}

/** It defers nothing. Undefined if the name is not that of such a window. */
export function ownSweepWindow(name: string, now: Date): RestoreWindow | undefined {
  const [, , epoch, , lastRenewal] = NAME.exec(name) ?? [];
  if (epoch === undefined && lastRenewal === undefined) return undefined;
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreWindow',
    metadata: {
      name,
      labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      finalizers: [SWEEP_FINALIZER], // the webhook that adds it may be missing
    },
    spec: {
      source: { type: epoch === undefined ? 'Startup' : 'Rollback' },
      principals: [],
      expiresAt: toTimestamp(new Date(now.getTime() + EXPIRES_AFTER_MS)),
      close: true,
      reason:
        epoch === undefined
          ? `Gatehouse was without a leader after ${new Date(Number(lastRenewal) * 1_000).toISOString()}: objects that were written since are checked`
          : `the lease showed that the cluster went back in time (announced in its epoch ${epoch}): everything is checked again`,
    },
  };
}

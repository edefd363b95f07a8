import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../api/group.ts';
import type { RestoreWindow } from '../api/restore-window.ts';

/** Whether the cluster went back in time, or was without us: told from the Lease of the leader, which is written all the time. */

/** Raised with each write of the Lease. */
export const EPOCH = 'gatehouse.dev/epoch';
/** The epoch in which a leader last said that the cluster went back in time; replicas that see a new one list everything anew. */
export const ROLLBACK = 'gatehouse.dev/rollback';

/** The Lease as one look saw it. Numbers are undefined where there is none, or something else: that is no sign of anything. */
export interface LeaseObservation {
  readonly epoch: bigint | undefined;
  /** Opaque by convention, but a number that only grows wherever etcd is behind it. */
  readonly resourceVersion: bigint | undefined;
  readonly rollback: string | undefined;
}

/** What a replica remembers of the Lease. */
export interface LeaseHistory {
  /** The last look. */
  readonly sight: LeaseObservation;
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

export interface LeaseAssessment {
  /** Against all that was ever seen: a copy from the past stays one, however often it is looked at. */
  readonly course: 'onward' | 'standing' | 'back';
  /** Undefined: nothing to be done about it. */
  readonly rollback: Rollback | undefined;
  readonly memory: LeaseHistory;
}

const NOTHING_KNOWN: LeaseHistory = {
  sight: { epoch: undefined, resourceVersion: undefined, rollback: undefined },
  highest: 0n,
  unannounced: false,
};

/** @param memory undefined at the first look */
export function assessLease(memory: LeaseHistory | undefined, sight: LeaseObservation): LeaseAssessment {
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

function courseOf(highest: bigint, now: bigint | undefined): LeaseAssessment['course'] {
  if (now === undefined || now === highest) return 'standing';
  return now > highest ? 'onward' : 'back';
}

const max = (a: bigint, b: bigint | undefined): bigint => (b !== undefined && b > a ? b : a);

const NUMBER = /^\d{1,30}$/;

/** @param text an annotation or a resourceVersion */
export function toNumber(text: string | undefined): bigint | undefined {
  return text !== undefined && NUMBER.test(text) ? BigInt(text) : undefined;
}

/** A RestoreWindow that defers nothing: Gatehouse itself asks for everything to be checked once. */
/** On the Lease: the name of the window that a leader has still to make, so that a crash before that loses nothing. */
export const SWEEP_DUE = 'gatehouse.dev/sweep-due';

/** After this time without a leader, in milliseconds, everything is checked again. */
export const MAX_LEADERLESS_MS = 10 * 60_000;

/** It is closed from the beginning; the API wants an end all the same. */
const EXPIRES_AFTER_MS = 3_600_000;

const NAME = /^(?:(rollback)-(\d{1,30})|(startup)-(\d{1,11}))$/;

/** @param epoch in which the rollback is announced: no two rollbacks share one */
export const rollbackSweep = (epoch: bigint): string => `rollback-${epoch}`;

/**
 * The sweep that is due after a long time without a leader; undefined otherwise. Its name comes of the end of
 * the last reign, so whoever finds out gives it the same.
 * @param renewTime of the Lease as it was found, RFC 3339
 */
export function startupSweep(renewTime: string | undefined, now: Date): string | undefined {
  const renewed = new Date(renewTime ?? NaN).getTime();
  return now.getTime() - renewed > MAX_LEADERLESS_MS ? `startup-${Math.floor(renewed / 1_000)}` : undefined;
}

/** @returns undefined for a name that is none of ours */
export function ownSweepWindow(name: string, now: Date): RestoreWindow | undefined {
  const [, , epoch, , endOfReign] = NAME.exec(name) ?? [];
  if (epoch === undefined && endOfReign === undefined) return undefined;
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreWindow',
    metadata: { name, labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true' } },
    spec: {
      source: { type: epoch === undefined ? 'Startup' : 'Rollback' },
      principals: [],
      expiresAt: new Date(now.getTime() + EXPIRES_AFTER_MS).toISOString().replace(/\.\d+Z$/, 'Z'),
      close: true,
      reason:
        epoch === undefined
          ? `no replica of Gatehouse led after ${new Date(Number(endOfReign) * 1_000).toISOString()}: what was written since is checked`
          : `the lease showed that the cluster went back in time (announced in its epoch ${epoch}): everything is checked again`,
    },
  };
}

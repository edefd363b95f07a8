/** A RestoreWindow that defers nothing: Gatehouse itself asks for everything to be checked once. */
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../api/group.ts';
import type { RestoreWindow } from '../api/restore-window.ts';

/** On the Lease: the name of the window that a leader has still to make, so that a crash before that loses nothing. */
export const SWEEP_DUE = 'gatehouse.dev/sweep-due';

/** For so long nobody may have looked at what was written, in milliseconds, before it is all looked at again. */
export const LONGEST_ABSENCE_MS = 10 * 60_000;

/** It is closed from the beginning; the API wants an end all the same. */
const EXPIRES_AFTER_MS = 3_600_000;

const NAME = /^(?:(rollback)-(\d{1,30})|(startup)-(\d{1,11}))$/;

/** @param epoch in which the rollback is announced: no two rollbacks share one */
export const rollbackSweep = (epoch: bigint): string => `rollback-${epoch}`;

/**
 * The sweep that is due because nobody led for long; undefined if somebody did, or if nobody ever has. Its name comes of the end of
 * the last reign, so whoever finds out gives it the same.
 * @param renewTime of the Lease as it was found, RFC 3339
 */
export function startupSweep(renewTime: string | undefined, now: Date): string | undefined {
  const renewed = new Date(renewTime ?? NaN).getTime();
  return now.getTime() - renewed > LONGEST_ABSENCE_MS ? `startup-${Math.floor(renewed / 1_000)}` : undefined;
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

/** What this replica remembers about the Lease and writes to it. A rollback of the cluster shows there first. */
import type { Config } from '../../config/config.ts';
import { PARTS } from '../../config/parts.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { COMPAT_SYSTEMS } from '../../pki/injection/request.ts';
import type { Log } from '../../log.ts';
import type { Metrics } from '../../server/metrics/metrics.ts';
import { createListeners } from '../listeners.ts';
import type { LeaseNotes, LeaseObject } from '../../kube/lease/lease-record.ts';
import {
  MAX_LEADERLESS_MS,
  rollbackSweep,
  startupSweep,
  SWEEP_DUE,
  EPOCH,
  assessLease,
  ROLLBACK,
  toNumber,
  type LeaseHistory,
  type LeaseObservation,
} from '../../restore/rollback.ts';

/** Annotations of the Lease: how the leader is set up. `gatehouse status` and `doctor` read them. */
export const WITHOUT = 'gatehouse.dev/without';
export const NAMESPACES = 'gatehouse.dev/namespaces';
export const COMPAT = 'gatehouse.dev/compat';

/** Annotation of the Lease: `--ca-propagation-wait` of the leader in milliseconds, if it is not the default. */
export const PROPAGATION_WAIT = 'gatehouse.dev/ca-propagation-wait';
const DEFAULT_PROPAGATION_WAIT_MS = 10 * 60_000;

export function propagationWaitOf(lease: Pick<KubeObject, 'metadata'> | undefined): number {
  const noted = Number(lease?.metadata?.annotations?.[PROPAGATION_WAIT] ?? DEFAULT_PROPAGATION_WAIT_MS);
  return Number.isFinite(noted) ? noted : DEFAULT_PROPAGATION_WAIT_MS;
}

export type Restrictions = Pick<Config, 'without' | 'namespaces' | 'compat'>;

export function restrictionsOf(lease: Pick<KubeObject, 'metadata'> | undefined): Restrictions {
  const annotations = lease?.metadata?.annotations ?? {};
  const { [WITHOUT]: without = '', [NAMESPACES]: namespaces = '', [COMPAT]: compat = '' } = annotations;
  return {
    compat: COMPAT_SYSTEMS.filter((system) => compat.split(',').includes(system)),
    without: PARTS.filter((part) => without.split(',').includes(part)),
    namespaces: namespaces === '' ? undefined : namespaces.split(','),
  };
}

export const LEADER_LEASE = 'gatehouse';
export type OwnLease = ReturnType<typeof createOwnLease>;

/** `onRollback`: everything must be listed again. `now`: by the clock of the API server, on which all replicas agree. */
export function createOwnLease(
  onRollback: () => void,
  metrics: Pick<Metrics, 'rollback'>,
  now: () => Date,
  log: Pick<Log, 'warn'>,
  { without, namespaces, compat }: Restrictions = restrictionsOf(undefined),
  propagationWaitMs = DEFAULT_PROPAGATION_WAIT_MS,
) {
  let memory: LeaseHistory | undefined;
  let due: string | undefined;
  let requested: string | undefined;
  let ledAt: Date | undefined;
  const listeners = createListeners<[name: string]>();

  const judge = (lease: LeaseObject) => {
    const { progress, rollback, memory: next } = assessLease(memory, sightOf(lease));
    // The first observation has nothing to compare with: the Lease may have been unrenewed for a long time.
    const isAlive = memory !== undefined || startupSweep(lease.spec?.renewTime, now()) === undefined;
    if (progress === 'forward' && isAlive) ledAt = now();
    memory = next;
    const before = due;
    due = withoutRequested(lease.metadata?.annotations?.[SWEEP_DUE]);
    if (due !== undefined && due !== before) listeners.tell(due);
    if (rollback !== undefined) {
      metrics.rollback(rollback.evidence);
      log.warn({ evidence: rollback.evidence }, `${rollback.message}; all objects are listed again`);
      onRollback();
    }
    return progress;
  };
  const withoutRequested = (name: string | undefined) => (name === requested ? undefined : name);

  /** A restored Lease carries an old renewTime. A live leader that this replica saw recently takes precedence. */
  const absence = (lease: LeaseObject | undefined) =>
    ledAt !== undefined && now().getTime() - ledAt.getTime() <= MAX_LEADERLESS_MS
      ? undefined
      : startupSweep(lease?.spec?.renewTime, now());

  const annotations = (lease: LeaseObject | undefined): Readonly<Record<string, string>> => {
    const { [SWEEP_DUE]: current, ...kept } = lease?.metadata?.annotations ?? {};
    const others = Object.fromEntries(
      Object.entries(kept).filter(
        ([name]) => ![WITHOUT, NAMESPACES, COMPAT, PROPAGATION_WAIT].includes(name),
      ),
    );
    const epoch = (memory?.highest ?? 0n) + 1n;
    const announce = memory?.unannounced === true;
    const sweep = announce ? rollbackSweep(epoch) : (absence(lease) ?? withoutRequested(current));
    return {
      ...others,
      [EPOCH]: String(epoch),
      ...(announce ? { [ROLLBACK]: String(epoch) } : {}),
      ...(sweep === undefined ? {} : { [SWEEP_DUE]: sweep }),
      ...(without.length === 0 ? {} : { [WITHOUT]: without.join(',') }),
      ...(namespaces === undefined ? {} : { [NAMESPACES]: namespaces.join(',') }),
      ...(compat.length === 0 ? {} : { [COMPAT]: compat.join(',') }),
      ...(propagationWaitMs === DEFAULT_PROPAGATION_WAIT_MS
        ? {}
        : { [PROPAGATION_WAIT]: String(propagationWaitMs) }),
    };
  };

  return {
    notes: { judge, annotations } satisfies LeaseNotes,
    /** The epoch in which a leader last announced a rollback. A webhook process can't read the Lease. */
    announcedRollback: () => memory?.last.rollback,
    sweepDue: () => due,
    onSweepDue: listeners.add,
    /** The window exists: the next write of the Lease removes the request for it. */
    sweepRequested: (name: string) => {
      requested = name;
      if (due === name) due = undefined;
    },
  };
}

function sightOf({ metadata }: LeaseObject): LeaseObservation {
  return {
    epoch: toNumber(metadata?.annotations?.[EPOCH]),
    resourceVersion: toNumber(metadata?.resourceVersion),
    rollback: metadata?.annotations?.[ROLLBACK],
  };
}

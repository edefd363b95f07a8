import { obstacleViolation, shownValues, type Obstacle, type WantedKey } from './check-unique.ts';
import type { Violation } from '../violation.ts';
import { deferringWindow, mayDefer, type Deferral, type RestoreLookup } from '../deferral/deferral.ts';
import { createClaimAcquirer } from './acquire-claims.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';
import { NO_FINDINGS, type Findings, type Undecided } from '../findings.ts';
import type { AdmissionContext } from '../world.ts';

/**
 * Claims the keys for the object of the request. A dry run only compares them.
 *
 * Free keys of policies that only warn or audit are claimed too, so that later requests can be compared with them.
 */
export async function claimKeys(
  keys: readonly WantedKey[],
  request: AdmissionRequest,
  context: AdmissionContext,
  restoring: RestoreLookup,
): Promise<Findings> {
  const { claims } = context.world;
  if (claims === undefined) return NO_FINDINGS;
  const acquire = createClaimAcquirer(request, context, claims);
  const { strict = [], lenient = [] } = Object.groupBy(keys, ({ policy }) =>
    policy.enforcement === 'Deny' ? 'strict' : 'lenient',
  );
  const found = await obstacleFindings(await acquire(strict), strict, request, acquire, restoring);
  if (found.violations.length > 0 || found.undecided.length > 0) return found;

  const lenientObstacles = (await Promise.all(lenient.map((key) => acquire([key])))).flat();
  return { ...found, violations: violationsOf(lenientObstacles), unchecked: undecidedOf(lenientObstacles) };
}

async function obstacleFindings(
  obstacles: readonly Obstacle[],
  keys: readonly WantedKey[],
  request: AdmissionRequest,
  acquire: ReturnType<typeof createClaimAcquirer>,
  restoring: RestoreLookup,
): Promise<Findings> {
  if (obstacles.length === 0) return NO_FINDINGS;
  const refused = {
    ...NO_FINDINGS,
    violations: violationsOf(obstacles),
    undecided: undecidedOf(obstacles),
    cause: obstacles.find((obstacle) => obstacle.kind === 'unknown')?.cause,
  };
  if (!obstacles.every(({ key }) => mayDefer(key.policy, 'unique'))) return refused;
  const restore = await restoring();
  if (restore.kind === 'unknown')
    return { ...NO_FINDINGS, undecided: obstacles.map(toUndecided), cause: restore.cause };
  const ofCluster = obstacles.some(({ key }) => key.rule.scope === 'Cluster');
  const window = deferringWindow(restore, request.operation, 'unique', ofCluster);
  if (window === undefined) return refused;
  const deferred = new Set(obstacles.map(({ key }) => key));
  const others = keys.filter((key) => !deferred.has(key));
  const found = await obstacleFindings(await acquire(others), others, request, acquire, restoring);
  return { ...found, deferred: [...obstacles.map(toDeferral), ...found.deferred], window };
}

/** Certain violations come first: the first violation determines the code and reason of the denial. */
function violationsOf(obstacles: readonly Obstacle[]): readonly Violation[] {
  const { certain = [], others = [] } = Object.groupBy(obstacles, ({ kind }) =>
    kind === 'held' ? 'certain' : 'others',
  );
  const violations = [...certain, ...others].flatMap((obstacle) => obstacleViolation(obstacle) ?? []);
  // The message about unsettled claims is the same for all keys of a policy.
  return [
    ...new Map(violations.map((one) => [`${one.policy.name} ${one.field} ${one.message}`, one])).values(),
  ];
}

function undecidedOf(obstacles: readonly Obstacle[]): readonly Undecided[] {
  return obstacles.filter(({ kind }) => kind === 'unknown').map(toUndecided);
}

function toUndecided({ key }: Obstacle): Undecided {
  const message = `could not find out whether ${shownValues(key)} in ${shorten(key.field, 256)} is free`;
  return { policy: key.policy, message, auditRef: auditRefOf(key) };
}

function toDeferral(obstacle: Obstacle): Deferral {
  const { key } = obstacle;
  const why = obstacleViolation(obstacle)?.message ?? `whether ${shownValues(key)} is free is unknown`;
  const message = `${shorten(key.field, 256)}: ${why}`;
  return { message, auditRef: auditRefOf(key), again: { kind: 'restore' } };
}

/** e.g. `servers/serial=serial-3fa9…` */
function auditRefOf({ policy, rule, claim }: WantedKey): string {
  return `${policy.name}/${rule.name}=${claim}`;
}

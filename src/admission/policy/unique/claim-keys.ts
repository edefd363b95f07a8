import { obstacleViolation, shownValues, type Obstacle, type WantedKey } from './check-unique.ts';
import type { Violation } from '../violation.ts';
import { defers, waits, type Deferral, type RestoreLookup } from '../deferral/deferral.ts';
import { createClaimAcquirer } from './acquire-claims.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';
import type { Findings, Undecided } from '../findings.ts';
import type { AdmissionContext } from '../world.ts';

/** The findings from claiming the unique values of a request. */
export type ClaimFindings = Pick<
  Findings,
  'violations' | 'undecided' | 'unchecked' | 'deferred' | 'window' | 'cause'
>;

const NONE: ClaimFindings = {
  violations: [],
  undecided: [],
  unchecked: [],
  deferred: [],
  window: undefined,
  cause: undefined,
};

/**
 * Claims the keys for the object of the request. A dry run only compares them.
 *
 * Free keys of policies that only warn or audit are claimed too, so that later requests can be compared with them.
 */
export async function claimKeys(
  keys: readonly WantedKey[],
  request: AdmissionRequest,
  circumstances: AdmissionContext,
  restoring: RestoreLookup,
): Promise<ClaimFindings> {
  const { claims } = circumstances.world;
  if (claims === undefined) return NONE;
  const take = createClaimAcquirer(request, circumstances, claims);
  const strict = keys.filter(({ policy }) => policy.enforcement === 'Deny');
  const obstacles = await take(strict);
  const found = obstacles.length === 0 ? NONE : await judged(obstacles, strict, request, take, restoring);
  if (found.violations.length > 0 || found.undecided.length > 0) return found;

  const lenient = keys.filter(({ policy }) => policy.enforcement !== 'Deny');
  const noted = (await Promise.all(lenient.map((key) => take([key])))).flat();
  return { ...found, violations: violationsOf(noted), unchecked: undecidedOf(noted) };
}

async function judged(
  obstacles: readonly Obstacle[],
  keys: readonly WantedKey[],
  { operation }: AdmissionRequest,
  take: ReturnType<typeof createClaimAcquirer>,
  restoring: RestoreLookup,
): Promise<ClaimFindings> {
  const refused = {
    ...NONE,
    violations: violationsOf(obstacles),
    undecided: undecidedOf(obstacles),
    cause: causeOf(obstacles),
  };
  if (!obstacles.every(({ key }) => waits(key.policy, 'unique'))) return refused;
  const restore = await restoring();
  if (restore.kind === 'unknown')
    return { ...NONE, undecided: obstacles.map(toUndecided), cause: restore.cause };
  if (restore.kind === 'none' || !defers(restore, operation, 'unique')) return refused;
  const given = new Set(obstacles.map(({ key }) => key));
  // The audit reports keys that another request takes in the meantime.
  await take(keys.filter((key) => !given.has(key)));
  return { ...NONE, deferred: obstacles.map(toDeferral), window: restore.window };
}

/** Certain violations come first: the first violation determines the code and reason of the denial. */
function violationsOf(obstacles: readonly Obstacle[]): readonly Violation[] {
  const certain = obstacles.filter(({ kind }) => kind === 'held');
  return [...certain, ...obstacles.filter(({ kind }) => kind !== 'held')].flatMap(
    (obstacle) => obstacleViolation(obstacle) ?? [],
  );
}

function undecidedOf(obstacles: readonly Obstacle[]): readonly Undecided[] {
  return obstacles.filter(({ kind }) => kind === 'unknown').map(toUndecided);
}

function toUndecided({ key }: Obstacle): Undecided {
  const message = `could not find out whether ${shownValues(key)} in ${shorten(key.field, 256)} is free`;
  return { policy: key.policy, message, auditRef: spell(key) };
}

function toDeferral(obstacle: Obstacle): Deferral {
  const { key } = obstacle;
  const message = obstacleViolation(obstacle)?.message ?? `whether ${shownValues(key)} is free is unknown`;
  return {
    message: `${shorten(key.field, 256)}: ${message}`,
    auditRef: spell(key),
    again: { kind: 'restore' },
  };
}

function causeOf(obstacles: readonly Obstacle[]): unknown {
  return obstacles.find((obstacle) => obstacle.kind === 'unknown')?.cause;
}

/** e.g. `servers/serial=serial-3fa9…` */
function spell({ policy, rule, claim }: WantedKey): string {
  return `${policy.name}/${rule.name}=${claim}`;
}

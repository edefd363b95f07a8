import type { ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledUnique } from '../compiled-policy.ts';
import { TRY_AGAIN } from '../../review/decision.ts';
import { writes, type AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import { describeRef, requestedObject, isSecret } from '../object-ref.ts';
import { governedBefore } from '../match/object-scope.ts';
import { countKeys, heldKeys, MAX_KEYS, unclaimedValues, type HeldKey } from './unique-key.ts';
import type { Exemption } from '../exceptions/exceptions.ts';
import type { Violation } from '../violation.ts';

export interface WantedKey extends HeldKey {
  readonly policy: CompiledPolicy;
  readonly self: ObjectRef;
}

/** Why a key cannot be claimed. Times are in milliseconds. */
export type Obstacle = { readonly key: WantedKey } & (
  | { readonly kind: 'held'; readonly holder: ObjectRef; readonly beingDeleted: boolean }
  /** An admitted write of another object with this key may still be stored. */
  | { readonly kind: 'pending'; readonly holder: ObjectRef; readonly waitMs: number }
  | { readonly kind: 'missing-namespace'; readonly namespace: string }
  /** The user has too many claims whose holders are not stored. */
  | { readonly kind: 'unsettled'; readonly username: string; readonly waitMs: number }
  | { readonly kind: 'unknown'; readonly cause: unknown }
);

export function wantedKeys(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  { covers }: Pick<Exemption, 'covers'>,
): readonly WantedKey[] {
  const { object } = request;
  if (policy.unique.length === 0 || object === undefined || !addsKeys(request)) return [];
  const self = requestedObject(request);
  const old = governedBefore(policy, request);
  const before = new Set(old === undefined ? [] : heldKeys(policy, old, self).map(({ claim }) => claim));
  return heldKeys(policy, object, self)
    .filter(({ claim, rule }) => !before.has(claim) && !covers('unique', rule.name))
    .map((key) => ({ ...key, policy, self }));
}

function addsKeys({ operation, subResource }: AdmissionRequest): boolean {
  return writes(operation) && subResource === '';
}

/** Reports lists with too many elements to claim. A list that is already too long must not gain such elements. */
export function checkUniqueLimits(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  { covers }: Pick<Exemption, 'covers'>,
): readonly Violation[] {
  const { object } = request;
  if (policy.unique.length === 0 || object === undefined || !addsKeys(request)) return [];
  const old = governedBefore(policy, request);
  return policy.unique.flatMap((rule) => {
    const count = countKeys(rule, object);
    if (count <= rule.maxValues || covers('unique', rule.name)) return [];
    const grows = old === undefined || count > countKeys(rule, old);
    if (!grows && isSubset(unclaimedValues(rule, object), unclaimedValues(rule, old))) return [];
    const message = `${grows ? tooLong(rule) : CHANGES_REST} (unique value ${rule.name})`;
    const field = rule.paths[0]?.text ?? '';
    return [{ policy, check: rule.name, field, reason: 'FieldValueTooLong', message }];
  });
}

const isSubset = (part: ReadonlySet<string>, whole: ReadonlySet<string>): boolean =>
  [...part].every((text) => whole.has(text));

function tooLong({ maxValues }: CompiledUnique): string {
  const remedy = maxValues < MAX_KEYS ? `, or raise maxValues of the rule (at most ${MAX_KEYS})` : '';
  return `holds more than ${maxValues} values, and each is claimed on its own: spread them over several objects${remedy}`;
}

const CHANGES_REST = `only the first ${MAX_KEYS} values are claimed, and the update brings another value behind them: remove values from the list first, or spread them over several objects`;

export function obstacleViolation(obstacle: Obstacle): Violation | undefined {
  const { policy, rule, field } = obstacle.key;
  const common = { policy, check: rule.name, field, reason: 'FieldValueDuplicate' } as const;
  switch (obstacle.kind) {
    case 'held':
      return { ...common, message: `${describeHeld(obstacle)} (unique value ${rule.name})` };
    case 'missing-namespace': {
      const message = `namespace ${quote(obstacle.namespace)} does not exist: create it first`;
      return { ...common, field: 'metadata.namespace', reason: 'FieldValueNotFound', message };
    }
    case 'unsettled': {
      const { namespace } = obstacle.key.self;
      const where = namespace === undefined ? '' : ` in namespace ${quote(namespace)}`;
      const message = `too many unique values that ${quote(obstacle.username)} claimed${where} belong to objects that are not stored: try again, and find out why those writes fail; the values are free ${toSeconds(obstacle.waitMs)} s after the last attempt`;
      return { ...common, field: '', message, refusal: TRY_AGAIN };
    }
    // The other write is nearly always stored within a second. If it failed, the claim remains pending for longer.
    case 'pending': {
      const message = `${shownValues(obstacle.key)} was claimed a moment ago by ${describeRef(obstacle.holder)}, which may be about to be stored: try again, in ${toSeconds(obstacle.waitMs)} s at the latest (unique value ${rule.name})`;
      return { ...common, message, refusal: TRY_AGAIN };
    }
    case 'unknown':
      return undefined;
  }
}

const toSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000));

function describeHeld({ key, holder, beingDeleted }: Extract<Obstacle, { kind: 'held' }>): string {
  const values = shownValues(key);
  return beingDeleted
    ? `${values} is held by ${describeRef(holder)}, which is being deleted: try again when it has gone`
    : `${values} is held by ${describeRef(holder)}: choose another value, or change or delete that object first`;
}

/** Logs and Events must not contain the values of a Secret. */
export function shownValues({ self, values }: Pick<WantedKey, 'self' | 'values'>): string {
  if (isSecret(self)) return 'the value';
  const shown = values.map(quote);
  return shown.length === 1 ? (shown[0] ?? '') : `(${shown.join(', ')})`;
}

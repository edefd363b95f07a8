/** The status of a reconciled object, as kstatus reads it. */
import { setCondition, setReady, type NotReady } from '../json/conditions.ts';
import { listIn, objectIn, valueIn } from '../json/json.ts';
import type { Condition, KubeObject } from '../json/kube-object.ts';
import { contains } from './owned-objects.ts';

export type AuthorCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export interface Unready {
  readonly why: NotReady;
  readonly reason: string;
  readonly message: string;
}

/** Null removes a field. */
export interface DesiredStatus {
  readonly observedGeneration?: number;
  readonly conditions: readonly Condition[];
  readonly [field: string]: unknown;
}

const RECONCILED = { status: 'True', reason: 'Reconciled', message: 'the object is as described' } as const;

export function desiredStatus(
  object: KubeObject,
  pass: { readonly conditions: readonly AuthorCondition[]; readonly fields: object },
  unready: Unready | undefined,
  now: Date,
): DesiredStatus {
  const generation = object.metadata?.generation;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const known = conditionsIn(object);
  const isWanted = ({ type }: Condition) => pass.conditions.some((one) => one.type === type);
  const ready = ['Ready', 'Reconciling', 'Stalled'];
  // Only the conditions of this pass, with the times of the former ones.
  const former = known.filter((one) => isWanted(one) || ready.includes(one.type));
  const own = pass.conditions.filter(({ type }) => type !== 'Ready');
  const set = own.reduce<readonly Condition[]>(
    (all, one) => setCondition(all, { ...one, ...observed }, now),
    former,
  );
  const { why, ...verdict } = readyOf(pass.conditions, unready);
  return { ...pass.fields, ...observed, conditions: setReady(set, { ...verdict, ...observed }, why, now) };
}

function readyOf(
  conditions: readonly AuthorCondition[],
  unready: Unready | undefined,
): Omit<AuthorCondition, 'type'> & { readonly why?: NotReady } {
  if (unready !== undefined) return { status: 'False', ...unready };
  const own = conditions.find(({ type }) => type === 'Ready');
  const decisive = own ?? conditions.find(({ status }) => status !== 'True');
  if (decisive === undefined) return RECONCILED;
  const { type, status, reason, message: text } = decisive;
  const message = own === undefined ? `${type}: ${text}` : text;
  return status === 'True'
    ? { status, reason, message }
    : { status: 'False', reason, message, why: 'Reconciling' };
}

const conditionsIn = (object: KubeObject): readonly Condition[] =>
  listIn(object, 'status', 'conditions') as unknown as readonly Condition[]; // of a kind whose author uses conditions

export function isUpToDate(object: KubeObject, desired: DesiredStatus): boolean {
  const stored = objectIn(object, 'status');
  return Object.entries(desired).every(([key, value]) =>
    value === null ? !Object.hasOwn(stored, key) : contains(stored[key], value),
  );
}

export const prunedField = (written: KubeObject, desired: DesiredStatus): string | undefined =>
  ['conditions', 'observedGeneration'].find(
    (field) => desired[field] !== undefined && valueIn(written, 'status', field) === undefined,
  );

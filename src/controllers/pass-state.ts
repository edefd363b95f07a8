/** What the parts of one pass share. */
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import type { Brake, Written } from './brake.ts';
import type { CompiledController } from './compile-controller.ts';
import type { AuthorCondition, Unready } from './status.ts';
import type { ControllerWorld, ServedKind } from './world.ts';

/** What earlier passes of this process found equal to what they wanted, by object: spares a request where comparing cannot. */
export type Settled = Map<string, string>;

/** The pass may wait for something that no watch reports. */
export const WAITING_SECONDS = 60;

export interface Pass {
  readonly controller: CompiledController;
  readonly world: ControllerWorld;
  readonly settled: Settled;
  readonly brake: Brake;
  /** The keys of the objects whose deletion is blocked. */
  readonly blocked: Set<string>;
  /** Aborts at the deadline of the author's code. */
  readonly deadline: AbortSignal;
  /** Aborts when this process stops, or stops leading. */
  readonly signal: AbortSignal;
}

export interface PassState {
  readonly pass: Pass;
  readonly kind: ServedKind;
  readonly kinds: readonly ServedKind[];
  readonly mark: string;
  /** The reconciled object after the last write of this pass. */
  object: KubeObject;
  /** What this pass changed, by the name of the object. */
  readonly written: Map<string, Written>;
  /** By key, with their fingerprints; undefined: that failed. */
  readonly applied: Map<string, string | undefined>;
  readonly conditions: AuthorCondition[];
  fields: Readonly<Record<string, unknown>>;
  readonly ending: string[];
  requeueAt: Date | undefined;
  unready: Unready | undefined;
  isFinished: boolean;
  isOver: boolean;
  running?: Promise<void>;
  finalizing?: Promise<void>;
}

export const appliedKey = ({ group, resource }: ServedKind, object: KubeObject): string =>
  `${resource}.${group} ${keyOf(object)}`;

/** The garbage collector removes the finalizer `orphan` at once, but later passes must keep what the object applied, too. */
export function noteOrphaning(settled: Settled, { metadata = {} }: KubeObject, isGone = false): void {
  const key = `orphans ${metadata.uid ?? ''}`;
  if (isGone) settled.delete(key);
  else if (metadata.finalizers?.includes('orphan') === true) settled.set(key, '');
}

export const isOrphaning = (settled: Settled, { metadata }: KubeObject): boolean =>
  settled.has(`orphans ${metadata?.uid ?? ''}`);

/** Before the first write that Kubernetes would not undo. Once, for all that wait for it. */
export const addFinalizer = (state: PassState): Promise<void> => (state.finalizing ??= add(state));

async function add(state: PassState): Promise<void> {
  const { pass, kind, object } = state;
  const { controller, world, signal } = pass;
  const { finalizers = [] } = object.metadata ?? {};
  if (finalizers.includes(controller.finalizer)) return;
  const next = await world.setFinalizers(kind, object, [...finalizers, controller.finalizer], signal);
  if (next === undefined) throw new Error('the object was deleted during the pass');
  state.object = next;
}

export const later = ({ now }: Pick<ControllerWorld, 'now'>, seconds: number): Date =>
  new Date(now().getTime() + seconds * 1_000);

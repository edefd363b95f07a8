/** On the leader: objects of one kind that ask for a CA bundle carry it. Nothing else in them is ours. */
import { pick } from '../../json/objects.ts';
import {
  handBackOperations,
  planInjection,
  type HandBackOperation,
  type InjectionPlan,
} from '../../pki/injection/plan.ts';
import { isContended, nextBout, peaceAt, type Fight } from '../../pki/injection/revert-backoff.ts';
import { sourceName, type BundleSource } from '../../pki/injection/request.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import type { InjectionTarget, TargetKind } from '../../pki/injection/target.ts';
import type { TargetState } from './injection-ledger.ts';
import type { Log } from '../../log.ts';
import {
  AWAIT_CHANGE,
  GONE,
  requeueIn,
  type Reconcile,
  type ReconcileResult,
  type RecordEvent,
} from '../controller.ts';
import { createRefusedWrites, REFUSED_RECHECK_MS, type WriteRefused } from '../write-refused.ts';

export interface InjectorDeps {
  readonly kind: TargetKind;
  /** As last seen, or as it is: writes hold only for the version that this gives. */
  readonly target: (
    key: string,
    signal: AbortSignal,
  ) => InjectionTarget | undefined | Promise<InjectionTarget | undefined>;
  readonly bundle: (source: BundleSource) => BundleState;
  /**
   * Writes the fields of `configuration` and no others, as the field manager for bundles, if the target still has the version
   * that was looked at: an entry that has gone since would otherwise come back as a stump.
   * @throws WriteRefused
   */
  readonly inject: (target: InjectionTarget, configuration: object, signal: AbortSignal) => Promise<unknown>;
  /** Patches managedFields, for the same version. @throws WriteRefused */
  readonly handBack: (
    target: InjectionTarget,
    operations: readonly HandBackOperation[],
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** How a target stands; undefined: it is none. */
  readonly report: (key: string, state: TargetState | undefined) => void;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

/** What is remembered of a target, in memory only: a new leader finds all that matters in the object. */
interface Memory {
  readonly problem?: string | undefined;
  /** What the API server refused, and when that was told. */
  readonly refused?: { readonly message: string; readonly at: Date } | undefined;
  /** The bundle that was announced last. */
  readonly announced?: string | undefined;
  readonly fight?: Fight | undefined;
}

interface Work extends InjectorDeps {
  readonly key: string;
  readonly object: InjectionTarget;
  readonly memory: Memory;
  readonly remember: (change: Memory) => void;
  readonly tell: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
}

export function createInjector(deps: InjectorDeps): Reconcile {
  const memories = new Map<string, Memory>();
  const refusedWrites = createRefusedWrites(deps.now);
  return async (key, signal) => {
    const object = await deps.target(key, signal);
    const { request } = object ?? {};
    const source = request?.kind === 'wanted' ? request.source : undefined;
    const bundle = source === undefined ? ({ kind: 'unknown' } as const) : deps.bundle(source);
    const plan = object === undefined ? undefined : planInjection(deps.kind, object, bundle);
    const memory = memories.get(key) ?? {};
    if (object === undefined || plan === undefined || plan.kind === 'none') {
      memories.delete(key);
      refusedWrites.over(key);
      deps.report(key, undefined);
      if (object !== undefined && memory.announced !== undefined) announceRelease(deps, object);
      return GONE;
    }
    const work: Work = {
      ...deps,
      key,
      object,
      memory,
      remember: (change) => memories.set(key, { ...memories.get(key), ...change }),
      tell: (type, reason, message) => {
        deps.record({ regarding: regarding(deps.kind, object), type, reason, message });
      },
    };
    try {
      const result = await carryOut(plan, work, signal);
      refusedWrites.over(key);
      return result;
    } catch (error) {
      if (!refusedWrites.isConfirmed(key, error)) throw error;
      return refused(error, work);
    }
  };
}

/** Kubernetes forgets an Event after an hour. */
const REPEAT_MS = 50 * 60_000;

/** It counts as stale until it is written. */
function refused({ message }: WriteRefused, work: Work): ReconcileResult {
  const { key, kind, memory, now, log } = work;
  const known = memory.refused;
  if (known?.message !== message || now().getTime() - known.at.getTime() >= REPEAT_MS) {
    work.tell('Warning', 'InjectionRefused', `the CA bundle is not written: ${message}`);
    log.warn({ kind: kind.kind, key, problem: message }, 'the CA bundle of an object is not written');
    work.remember({ refused: { message, at: now() } });
  }
  return requeueIn(REFUSED_RECHECK_MS, now());
}

async function carryOut(
  plan: Exclude<InjectionPlan, { kind: 'none' }>,
  work: Work,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { key, report } = work;
  switch (plan.kind) {
    case 'wait':
      report(key, 'stale');
      return AWAIT_CHANGE;
    case 'invalid':
      complain(plan.problem, work);
      report(key, 'invalid');
      return AWAIT_CHANGE;
    case 'hand-back':
      await handBack(plan, work, signal);
      return AWAIT_CHANGE; // the write comes back as a change
    case 'current':
      complain(plan.problem, work);
      return current(plan.problem, work);
    case 'inject':
      complain(plan.problem, work);
      return await inject(plan, work, signal);
  }
}

async function inject(
  { slots, stale, bundle, problem }: Extract<InjectionPlan, { kind: 'inject' }>,
  work: Work,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { key, object, memory, kind, now, log } = work;
  const bout = nextBout(memory.fight, bundle, now());
  work.report(key, isContended(bout.fight) ? 'contended' : 'stale');
  if (bout.kind === 'wait') {
    work.remember({ fight: bout.fight });
    if (bout.begins) {
      const message = 'somebody keeps on removing the CA bundle: it is put back more and more slowly';
      work.tell('Warning', 'CABundleContended', message);
      log.warn({ kind: kind.kind, key }, 'the CA bundle of an object is contended');
    }
    return { kind: 'requeue', at: bout.until };
  }
  await work.inject(object, kind.configuration(slots, bundle), signal);
  work.remember({ fight: bout.fight, announced: bundle, refused: undefined });
  log.info({ kind: kind.kind, key, slots: stale }, 'injected the CA bundle');
  // What is put back after somebody took it is no news.
  if (memory.announced !== bundle) work.tell('Normal', 'Injected', injectedMessage(object, stale));
  if (!isContended(bout.fight)) work.report(key, stateOf(problem));
  return AWAIT_CHANGE;
}

function current(problem: string | undefined, work: Work): ReconcileResult {
  const { key, memory, now, report, remember } = work;
  const { fight } = memory;
  if (isContended(fight)) {
    const at = peaceAt(fight);
    if (now() < at) {
      report(key, 'contended');
      return { kind: 'requeue', at };
    }
    remember({ fight: undefined });
  }
  report(key, stateOf(problem));
  return AWAIT_CHANGE;
}

async function handBack(
  { keep, released }: Extract<InjectionPlan, { kind: 'hand-back' }>,
  work: Work,
  signal: AbortSignal,
): Promise<void> {
  const { kind, object, log, key } = work;
  await work.handBack(object, handBackOperations(kind, object, keep), signal);
  if (released.length === 0) return;
  log.info({ kind: kind.kind, key, slots: released }, 'released the CA bundle');
  work.tell('Normal', 'Released', releasedMessage(released));
  work.remember({ announced: undefined, problem: undefined });
}

const stateOf = (problem: string | undefined): TargetState => (problem === undefined ? 'current' : 'invalid');

/** Once for each problem, not once for each look. */
function complain(problem: string | undefined, { memory, tell, remember, log, kind, key }: Work): void {
  if (problem === memory.problem) return;
  remember({ problem });
  if (problem === undefined) return;
  tell('Warning', 'InvalidInjection', problem);
  log.warn({ kind: kind.kind, key, problem }, 'cannot inject a CA bundle');
}

/** Of a CustomResourceDefinition we own nothing that would have to be handed back. */
function announceRelease({ kind, record }: InjectorDeps, object: InjectionTarget): void {
  if (object.metadata?.deletionTimestamp !== undefined) return;
  const message = releasedMessage(object.slots.map(({ name }) => name));
  record({ regarding: regarding(kind, object), type: 'Normal', reason: 'Released', message });
}

const releasedMessage = (slots: readonly string[]): string =>
  `the CA bundle is no longer kept up to date${of(slots)}; what stands there stays`;

function injectedMessage({ request }: InjectionTarget, slots: readonly string[]): string {
  const source =
    request.kind === 'wanted' && request.source.kind === 'object'
      ? sourceName(request.source.ref)
      : 'the authority of Gatehouse';
  return `the CA bundle of ${source} was injected${of(slots)}`;
}

const of = (slots: readonly string[]): string => (slots.length === 0 ? '' : ` (${slots.join(', ')})`);

const API_VERSIONS = {
  MutatingWebhookConfiguration: 'admissionregistration.k8s.io/v1',
  ValidatingWebhookConfiguration: 'admissionregistration.k8s.io/v1',
  CustomResourceDefinition: 'apiextensions.k8s.io/v1',
  APIService: 'apiregistration.k8s.io/v1',
  ConfigMap: 'v1',
} as const;

function regarding({ kind }: TargetKind, { metadata = {} }: InjectionTarget) {
  return {
    apiVersion: API_VERSIONS[kind],
    kind,
    name: metadata.name ?? '',
    ...pick(metadata, 'namespace', 'uid'),
  };
}

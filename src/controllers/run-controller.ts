/** Runs one pass of a controller without a cluster, for the author's tests. */
import { listIn } from '../json/json.ts';
import type { Condition, KubeObject } from '../json/kube-object.ts';
import { createBrake } from './brake.ts';
import { compileController } from './compile-controller.ts';
import type { Controller } from './controller.ts';
import { createMemory } from './memory-world.ts';
import { runPass } from './pass.ts';
import type { MetricWrite } from '../api/own-metric.ts';
import type { ControllerTrial, ControllerWrite } from './trial.ts';

export interface ControllerVerdict {
  /** In their order. A second run with `object` and `cluster` of the first has none if the controller is idempotent. */
  readonly writes: readonly ControllerWrite[];
  /** After the pass; undefined if it is gone. */
  readonly object: KubeObject | undefined;
  /** After the pass. */
  readonly cluster: Readonly<Record<string, readonly KubeObject[]>>;
  readonly conditions: readonly Condition[];
  /** When the next pass is due without a change; undefined: never. */
  readonly requeueAt: Date | undefined;
  readonly events: readonly { readonly type: string; readonly reason: string; readonly message: string }[];
  /** The calls of own metrics, in their order. */
  readonly metrics: readonly MetricWrite[];
  /** What `reconcile` or `finalize` threw. */
  readonly error: Error | undefined;
}

/** @throws Error if the object lacks apiVersion, kind or name */
export async function runController(
  controller: Controller<never>,
  trial: ControllerTrial,
): Promise<ControllerVerdict> {
  const compiled = compileController(controller.name ?? 'controller', controller);
  const memory = createMemory(compiled, trial);
  const signal = trial.signal ?? new AbortController().signal;
  const memories = { settled: new Map(), brake: createBrake(), blocked: new Set<string>() };
  const result = await runPass(
    { controller: compiled, world: memory.world, ...memories, deadline: signal, signal },
    memory.object(),
  );
  const object = memory.object();
  return {
    writes: memory.writes,
    object,
    cluster: memory.cluster(),
    conditions: listIn(object, 'status', 'conditions') as unknown as readonly Condition[], // written by the pass
    requeueAt: result.kind === 'done' ? result.requeueAt : undefined,
    events: memory.events,
    metrics: memory.metrics,
    error: result.kind === 'failed' ? result.error : undefined,
  };
}

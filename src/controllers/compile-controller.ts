import { toReadKind, type ReadKind } from '../admission/handlers/compile-handler.ts';
import { groupResourceName, type GroupResource } from '../json/kube-object.ts';
import type { OwnMetricDefinition } from '../api/own-metric.ts';
import { uniqueBy } from '../json/json.ts';
import { selectorOf } from '../admission/handlers/reader.ts';
import type { NormalSelector } from '../json/label-selector.ts';
import type { WatchLookup, WatchSource } from './watch-map.ts';
import type { Controller, ControllerContext, OwnedKinds, PolicyRule, RateLimit } from './controller.ts';

export interface VersionedKind extends GroupResource {
  readonly version: string;
}

export type ControllerFunction = (object: object, context: ControllerContext) => Promise<void> | void;

export interface CompiledSource {
  readonly kind: ReadKind;
  readonly selector: NormalSelector;
  readonly when: ((object: object, before: object) => boolean) | undefined;
  readonly map: (object: object, lookup: WatchLookup) => unknown;
}

export interface CompiledController {
  readonly name: string;
  readonly watched: VersionedKind;
  readonly owns: readonly VersionedKind[];
  readonly reads: readonly ReadKind[];
  readonly watches: readonly CompiledSource[];
  readonly indexes: Readonly<Record<string, (object: object) => readonly string[]>>;
  readonly when: ((object: object, before: object) => boolean) | undefined;
  readonly rules: readonly PolicyRule[];
  readonly writesStatus: boolean;
  readonly leaderOnly: boolean;
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly rateLimit: Required<RateLimit> | undefined;
  readonly backoff: { readonly baseMs: number; readonly maxMs: number };
  readonly metrics: Readonly<Record<string, OwnMetricDefinition>>;
  /** When a deletion counts as blocked. */
  readonly finalizeTimeoutMs: number;
  readonly reconcile: ControllerFunction;
  readonly finalize: ControllerFunction | undefined;
  readonly finalizer: string;
  readonly fieldManager: string;
}

const CONCURRENCY = 4;
const TIMEOUT_SECONDS = 60;
const FINALIZE_TIMEOUT_SECONDS = 600;
const RETRY = { baseSeconds: 1, maxSeconds: 300 };

export const finalizerOf = (name: string): string => `gatehouse.dev/controller-${name}`;

export function compileController(name: string, controller: Controller<never>): CompiledController {
  const { watch, owns = [], reads = [], rules = [], watches = [], indexes = {} } = controller;
  const { rateLimit, retry = RETRY, metrics = {} } = controller;
  const watched = kindsIn(watch)[0] ?? { group: '', version: '', resource: '' };
  const owned = uniqueBy(owns.flatMap(kindsIn), groupResourceName);
  const own = [watched, ...owned].map((kind) => ({ ...kind, metadataOnly: false }));
  const others = [...reads, ...watches.map(({ kind }) => kind)].map(toReadKind);
  return {
    name,
    watched,
    owns: owned,
    // The last of a kind counts: what needs the content gets it.
    reads: uniqueBy(
      [...own, ...others].toSorted((a, b) => Number(b.metadataOnly) - Number(a.metadataOnly)),
      groupResourceName,
    ),
    watches: watches.map(compileSource),
    indexes: indexes as CompiledController['indexes'],
    when: controller.when as CompiledController['when'],
    rules,
    writesStatus: controller.writesStatus ?? !isBuiltIn(watched.group),
    leaderOnly: controller.leaderOnly ?? true,
    concurrency: controller.concurrency ?? CONCURRENCY,
    timeoutMs: (controller.timeoutSeconds ?? TIMEOUT_SECONDS) * 1_000,
    rateLimit: rateLimit && { burst: Math.ceil(rateLimit.passesPerSecond), ...rateLimit },
    backoff: { baseMs: retry.baseSeconds * 2_000, maxMs: retry.maxSeconds * 1_000 }, // with jitter, the half of it is usual
    metrics,
    finalizeTimeoutMs: (controller.finalizeTimeoutSeconds ?? FINALIZE_TIMEOUT_SECONDS) * 1_000,
    // The API server sends only objects of the kind in `watch`. The author guarantees that these have the type T.
    reconcile: controller.reconcile as ControllerFunction,
    finalize: controller.finalize as ControllerFunction | undefined,
    finalizer: finalizerOf(name),
    fieldManager: `gatehouse-controller-${name}`,
  };
}

/** The author guarantees the type of the objects of the kind. */
const compileSource = (source: WatchSource): CompiledSource => ({
  kind: toReadKind(source.kind),
  selector: selectorOf(source.labelSelector),
  when: source.when && ((object, before) => source.when?.(object as never, before as never) !== false),
  map: (object, lookup) => source.map(object as never, lookup),
});

/** The status of objects of Kubernetes itself belongs to its controllers. */
const isBuiltIn = (group: string): boolean => !group.includes('.') || group.endsWith('.k8s.io');

const kindsIn = ({ apiGroups, apiVersions, resources }: OwnedKinds): readonly VersionedKind[] =>
  resources.map((resource) => ({ group: apiGroups[0], version: apiVersions[0], resource }));

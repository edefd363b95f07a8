import { toReadKind, type ReadKind } from '../admission/handlers/compile-handler.ts';
import { groupResourceName, type GroupResource } from '../json/kube-object.ts';
import { uniqueBy } from '../json/objects.ts';
import type { Controller, ControllerContext, PolicyRule } from './controller.ts';

/** A kind in the version that the author wrote. */
export interface VersionedKind extends GroupResource {
  readonly version: string;
}

export type ControllerFunction = (object: object, context: ControllerContext) => Promise<void> | void;

export interface CompiledController {
  readonly name: string;
  readonly watched: VersionedKind;
  readonly owns: readonly VersionedKind[];
  /** What `get` and `list` may read. */
  readonly reads: readonly ReadKind[];
  readonly rules: readonly PolicyRule[];
  readonly writesStatus: boolean;
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly reconcile: ControllerFunction;
  readonly finalize: ControllerFunction | undefined;
  readonly finalizer: string;
  /** Of server-side apply. */
  readonly fieldManager: string;
}

const CONCURRENCY = 4;
const TIMEOUT_SECONDS = 60;

/** @param name the name in the definition, or the name of the file */
export function compileController(name: string, controller: Controller<never>): CompiledController {
  const { watch, owns = [], reads = [], rules = [] } = controller;
  const watched = kindsIn(watch)[0] ?? { group: '', version: '', resource: '' };
  const owned = uniqueBy(owns.flatMap(kindsIn), groupResourceName);
  const own = [watched, ...owned].map((kind) => ({ ...kind, metadataOnly: false }));
  return {
    name,
    watched,
    owns: owned,
    reads: uniqueBy([...own, ...reads.map(toReadKind)], groupResourceName),
    rules,
    writesStatus: controller.writesStatus ?? !isBuiltIn(watched.group),
    concurrency: controller.concurrency ?? CONCURRENCY,
    timeoutMs: (controller.timeoutSeconds ?? TIMEOUT_SECONDS) * 1_000,
    // The API server sends only objects of the kind in `watch`. The author guarantees that these have the type T.
    reconcile: controller.reconcile as ControllerFunction,
    finalize: controller.finalize as ControllerFunction | undefined,
    finalizer: `gatehouse.dev/controller-${name}`,
    fieldManager: `gatehouse-controller-${name}`,
  };
}

/** The API groups of Kubernetes itself: the status of their objects belongs to its controllers. */
const isBuiltIn = (group: string): boolean => !group.includes('.') || group.endsWith('.k8s.io');

function kindsIn({
  apiGroups: [group = ''],
  apiVersions: [version = ''],
  resources,
}: {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly resources: readonly string[];
}): readonly VersionedKind[] {
  return resources.map((resource) => ({ group, version, resource }));
}

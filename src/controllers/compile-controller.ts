import { toReadKind, type ReadKind } from '../admission/handlers/compile-handler.ts';
import { groupResourceName, type GroupResource } from '../json/kube-object.ts';
import { uniqueBy } from '../json/json.ts';
import type { Controller, ControllerContext, OwnedKinds, PolicyRule } from './controller.ts';

export interface VersionedKind extends GroupResource {
  readonly version: string;
}

export type ControllerFunction = (object: object, context: ControllerContext) => Promise<void> | void;

export interface CompiledController {
  readonly name: string;
  readonly watched: VersionedKind;
  readonly owns: readonly VersionedKind[];
  readonly reads: readonly ReadKind[];
  readonly rules: readonly PolicyRule[];
  readonly writesStatus: boolean;
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly reconcile: ControllerFunction;
  readonly finalize: ControllerFunction | undefined;
  readonly finalizer: string;
  readonly fieldManager: string;
}

const CONCURRENCY = 4;
const TIMEOUT_SECONDS = 60;

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

/** The status of objects of Kubernetes itself belongs to its controllers. */
const isBuiltIn = (group: string): boolean => !group.includes('.') || group.endsWith('.k8s.io');

const kindsIn = ({ apiGroups, apiVersions, resources }: OwnedKinds): readonly VersionedKind[] =>
  resources.map((resource) => ({ group: apiGroups[0], version: apiVersions[0], resource }));

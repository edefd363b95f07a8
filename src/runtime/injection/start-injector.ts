/** The injector of one kind: what it watches, and how it writes. */
import { objectKey } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { createInjector, type InjectorDeps } from './injector.ts';
import type { TargetView } from './injection-evidence.ts';
import { guardedJsonPatch, type KubeClient } from '../../kube/client.ts';
import type { NamedRef, Resource } from '../../kube/object.ts';
import { INJECTION_MANAGER } from '../../pki/annotations.ts';
import type { InjectionTarget, TargetKind } from '../../pki/injection/target.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { CLUSTER_ROLE, refusable } from '../write-refused.ts';
import { watchTargets } from './target-store.ts';

export interface InjectorOptions extends Pick<InjectorDeps, 'bundle' | 'report' | 'record'> {
  readonly kind: TargetKind;
  readonly resource: Resource;
  /** The object of this kind that Gatehouse writes as a whole: watched, and never written here. */
  readonly own: string;
  /** These, which matter here, have changed: as they are now and as they were. None: there is more to know about the rest. */
  readonly onChange: (targets: readonly InjectionTarget[]) => void;
}

export interface RunningInjector {
  readonly view: TargetView;
  readonly hasSynced: () => boolean;
  /** Looks again at the targets that this holds for. */
  readonly resync: (filter: (target: InjectionTarget) => boolean) => void;
  readonly stopped: Promise<unknown>;
}

/** ConfigMaps that ask may stand in each of a thousand namespaces. */
const WORKERS = 4;

export function startInjector(
  context: Context & { readonly client: KubeClient },
  options: InjectorOptions,
  signal: AbortSignal,
): RunningInjector {
  const { kind, resource, own, onChange, ...deps } = options;
  const targets = watchTargets(
    context,
    {
      kind,
      resource,
      own,
      onTarget: (key, changed) => {
        controller.add(key);
        onChange(changed);
      },
      onNews: () => {
        onChange([]);
      },
    },
    signal,
  );
  const controller = startController(
    context,
    {
      name: `injector-${resource.resource}`,
      concurrency: WORKERS,
      reconcile: createInjector({
        ...deps,
        ...writesOf(context.client, kind, resource),
        kind,
        target: targets.read,
        now: () => new Date(),
        log: context.log,
      }),
    },
    signal,
  );
  return {
    view: { kind, targets: targets.list, isOwn: (key) => key === own },
    hasSynced: targets.hasSynced,
    resync: (filter) => {
      for (const target of targets.asking().filter(filter)) controller.add(objectKey(target.metadata ?? {}));
    },
    stopped: controller.stopped,
  };
}

function refOf({ metadata }: InjectionTarget): NamedRef {
  return { namespace: metadata?.namespace, name: metadata?.name ?? '' };
}

function writesOf(
  client: KubeClient,
  kind: TargetKind,
  resource: Resource,
): Pick<InjectorDeps, 'inject' | 'handBack'> {
  const fieldManager = INJECTION_MANAGER;
  const write = async (target: InjectionTarget, configuration: object, signal: AbortSignal) => {
    const { metadata = {} } = target;
    // The API server of APIServices cannot apply in old releases, and a merge patch of one field does the same.
    if (kind.kind === 'APIService') {
      const patch = { metadata: pick(metadata, 'resourceVersion'), ...configuration };
      await client.patchMerge(resource, refOf(target), patch, { fieldManager, signal });
      return;
    }
    const known = pick(metadata, 'name', 'namespace', 'resourceVersion');
    await client.apply(
      resource,
      { metadata: known, ...configuration },
      { fieldManager, force: true, signal },
    );
  };
  return {
    inject: (target, configuration, signal) =>
      refusable(CLUSTER_ROLE, () => write(target, configuration, signal)),
    handBack: (target, operations, signal) =>
      refusable(CLUSTER_ROLE, () =>
        client.patchJson(resource, refOf(target), guardedJsonPatch(target, operations), {
          fieldManager,
          signal,
        }),
      ),
  };
}
